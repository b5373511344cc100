// Command go-mysql prints what go-mysql reads of the files of the corpus, in the reader's form (corpus/README.md).
//
// Its parser hands out events. Checksums are verified, times are texts in UTC, documents texts as the server prints them,
// signs are those that the log tells.
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

var encoder = json.NewEncoder(os.Stdout)

func write(line map[string]any) {
	if err := encoder.Encode(line); err != nil {
		panic(err)
	}
}

func main() {
	encoder.SetEscapeHTML(false)
	for _, file := range os.Args[1:] {
		write(map[string]any{"file": filepath.Base(file)})
		line := map[string]any{"end": true}
		if err := read(file); err != nil {
			line = map[string]any{"error": err.Error()}
		}
		write(line)
	}
}

func read(file string) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	parser := replication.NewBinlogParser()
	parser.SetVerifyChecksum(true)
	parser.SetTimestampStringLocation(time.UTC)
	parser.SetRenderJSONAsMySQLText(true)
	if strings.HasPrefix(filepath.Base(file), "mariadb") {
		parser.SetFlavor(mysql.MariaDBFlavor)
	}
	return parser.ParseFile(file, 0, onEvent)
}

func onEvent(event *replication.BinlogEvent) error {
	switch body := event.Event.(type) {
	case *replication.QueryEvent:
		write(map[string]any{"statement": string(body.Query)})
	case *replication.TransactionPayloadEvent:
		for _, inner := range body.Events {
			if err := onEvent(inner); err != nil {
				return err
			}
		}
	case *replication.RowsEvent:
		rows(body)
	}
	return nil
}

func rows(event *replication.RowsEvent) {
	table := string(event.Table.Schema) + "." + string(event.Table.Table)
	unsigned := event.Table.UnsignedMap()
	image := func(number int) []any {
		cells := make([]any, len(event.Rows[number]))
		for column, value := range event.Rows[number] {
			cells[column] = cell(event.Table.ColumnType[column], value, unsigned[column])
		}
		for _, column := range event.SkippedColumns[number] {
			cells[column] = map[string]any{"absent": true}
		}
		return cells
	}
	for number := 0; number < len(event.Rows); number++ {
		line := map[string]any{"table": table, "before": nil, "after": nil}
		switch event.Type() {
		case replication.EnumRowsEventTypeInsert:
			line["op"], line["after"] = "insert", image(number)
		case replication.EnumRowsEventTypeDelete:
			line["op"], line["before"] = "delete", image(number)
		default:
			line["op"], line["before"], line["after"] = "update", image(number), image(number+1)
			number++
		}
		write(line)
	}
}

func cell(kind byte, value any, unsigned bool) any {
	if kind == mysql.MYSQL_TYPE_BIT {
		if number, ok := value.(int64); ok {
			return strconv.FormatUint(uint64(number), 10)
		}
	}
	switch value := value.(type) {
	case []byte:
		if kind == mysql.MYSQL_TYPE_JSON {
			return string(value)
		}
		return map[string]any{"hex": hex.EncodeToString(value)}
	case string:
		switch kind {
		case mysql.MYSQL_TYPE_VARCHAR, mysql.MYSQL_TYPE_VAR_STRING, mysql.MYSQL_TYPE_STRING, mysql.MYSQL_TYPE_BLOB:
			return map[string]any{"hex": hex.EncodeToString([]byte(value))}
		}
		return value
	case int8:
		if unsigned {
			return uint8(value)
		}
	case int16:
		if unsigned {
			return uint16(value)
		}
	case int32:
		if unsigned && kind == mysql.MYSQL_TYPE_INT24 {
			return uint32(value) & 0xFFFFFF
		}
		if unsigned {
			return uint32(value)
		}
	case int64:
		if unsigned && kind == mysql.MYSQL_TYPE_LONGLONG {
			return uint64(value)
		}
	case float32:
		return strconv.FormatFloat(float64(value), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case *replication.JsonDiff:
		return map[string]any{"difference": value.String()}
	}
	return value
}
