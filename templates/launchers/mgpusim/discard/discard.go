// Package discard stands in for SQLite, which Akita imports to keep its record of a simulation. The
// runner asks for that record nowhere, so nothing of it is kept: there is no C to compile, and no
// memory taken.
package discard

import (
	"database/sql"
	"database/sql/driver"
	"errors"
)

func init() { sql.Register("sqlite3", database{}) }

// database is the driver, a connection, a statement and a transaction. It takes whatever is
// written; a query is an error, so that nobody reads an empty record for a true one.
type database struct{}

func (d database) Open(string) (driver.Conn, error)    { return d, nil }
func (d database) Prepare(string) (driver.Stmt, error) { return d, nil }
func (d database) Begin() (driver.Tx, error)           { return d, nil }
func (database) Commit() error                         { return nil }
func (database) Rollback() error                       { return nil }
func (database) Close() error                          { return nil }
func (database) NumInput() int                         { return -1 }

func (database) Exec([]driver.Value) (driver.Result, error) { return driver.ResultNoRows, nil }

func (database) Query([]driver.Value) (driver.Rows, error) {
	return nil, errors.New("the record of the simulation is discarded")
}
