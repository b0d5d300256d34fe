package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend/mysqlleader"
	"github.com/goleader/leader/backend/sqlleader"
	"github.com/goleader/leader/history"
)

func openMySQL(_ context.Context, l *Location, _ Options) (*Store, error) {
	options := &mysqlleader.Options{Table: l.Own("table")}
	records := l.Own("history_table")
	config, err := mysqlConfig(l)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	b := mysqlleader.New(db, options)
	s := &Store{Driver: b, Migrate: b.Migrate, Rights: sqlRights(options.Table, records)}
	s.closes(db.Close)
	s.closes(b.Close)
	s.History, err = newSQLHistory(db, sqlleader.MySQL(), &history.SQLOptions{Table: records})
	return s, err
}

// mysqlConfig has the host from the start, because the name that the server's certificate must have is taken from it.
func mysqlConfig(l *Location) (*mysql.Config, error) {
	if len(l.Hosts) > 1 {
		return nil, errors.New("mysql takes one host")
	}
	config, err := mysql.ParseDSN("tcp(" + l.addresses("3306")[0] + ")/?" + l.query.Encode())
	if err != nil {
		return nil, err
	}
	config.User, config.Passwd, config.DBName = l.User, l.Password, l.Path
	return config, nil
}
