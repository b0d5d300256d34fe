package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/history"
)

func openMySQL(_ context.Context, l *Location, _ Options) (*Store, error) {
	options := &mysqlleader.Options{Table: l.Own("table")}
	records := l.Own("history_table")
	if len(l.Hosts) > 1 {
		return nil, errors.New("mysql takes one host")
	}
	config, err := mysql.ParseDSN("/?" + l.query.Encode())
	if err != nil {
		return nil, err
	}
	config.User, config.Passwd, config.DBName = l.User, l.Password, l.Path
	config.Net, config.Addr = "tcp", l.addresses("3306")[0]
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	b := mysqlleader.New(db, options)
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: sqlRights}
	s.closes(db.Close)
	s.closes(b.Close)
	s.History, err = history.NewSQL(db, &history.SQLOptions{Table: records})
	return s, err
}
