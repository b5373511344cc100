// The decoder in Go: go-mysql. It reads names of binlog files from standard input and answers each with changes,
// values, the sum of all first columns and the sum of the code points of all VARCHAR values of each table's last
// image. No checksum is checked.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

type counts struct {
	changes, values, sum int64
	last                 map[uint64]image
}

type image struct {
	row   []any
	types []byte
}

func (c *counts) event(event *replication.BinlogEvent) error {
	if payload, ok := event.Event.(*replication.TransactionPayloadEvent); ok {
		for _, inner := range payload.Events {
			if err := c.event(inner); err != nil {
				return err
			}
		}
		return nil
	}
	rows, ok := event.Event.(*replication.RowsEvent)
	if !ok {
		return nil
	}
	images := int64(len(rows.Rows))
	switch event.Header.EventType {
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2,
		replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1:
		c.changes += images / 2
	default:
		c.changes += images
	}
	for _, row := range rows.Rows {
		c.values += int64(len(row))
		c.sum += row[0].(int64)
	}
	c.last[rows.TableID] = image{rows.Rows[images-1], rows.Table.ColumnType}
	return nil
}

func (c *counts) letters() int64 {
	var sum int64
	for _, last := range c.last {
		for place, value := range last.row {
			if text, ok := value.(string); ok && last.types[place] == mysql.MYSQL_TYPE_VARCHAR {
				for _, letter := range text {
					sum += int64(letter)
				}
			}
		}
	}
	return sum
}

func main() {
	names := bufio.NewScanner(os.Stdin)
	for names.Scan() {
		parser := replication.NewBinlogParser()
		parser.SetVerifyChecksum(false)
		parser.SetUseDecimal(false)
		if len(os.Args) > 1 {
			parser.SetFlavor(os.Args[1])
		} else {
			parser.SetFlavor(mysql.MySQLFlavor)
		}
		found := counts{last: map[uint64]image{}}
		if err := parser.ParseFile(names.Text(), 0, found.event); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(found.changes, found.values, found.sum, found.letters())
	}
}
