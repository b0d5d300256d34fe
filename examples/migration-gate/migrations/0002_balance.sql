ALTER TABLE accounts ADD COLUMN balance bigint NOT NULL DEFAULT 0;
CREATE INDEX accounts_balance ON accounts (balance);
