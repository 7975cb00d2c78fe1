package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/jackc/pgx/v5"
)

// This file reads the suite's tables of texts and types back, by SQL of its own and none of the sink's.

// harnessValues reads TextTable and TypeTable.
func harnessValues(ctx context.Context, e *env, t *changelog.Table) ([]changelog.Row, error) {
	if t.Name == sinktest.TextTable {
		rows, err := e.admin.Query(ctx, "SELECT k, v, b FROM "+e.live(t))
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(r pgx.CollectableRow) (changelog.Row, error) {
			var k string
			var v *string
			var b []byte
			err := r.Scan(&k, &v, &b)
			row := changelog.Row{changelog.StringValue(k), {}, {}}
			if v != nil {
				row[1] = changelog.StringValue(*v)
			}
			if b != nil {
				row[2] = changelog.BytesValue(b)
			}
			return row, err
		})
	}
	typ := &t.Schema.Columns[1].Type
	expr, scan := typeReader(typ)
	rows, err := e.admin.Query(ctx, "SELECT id, "+expr+" FROM "+e.live(t), pgx.QueryExecModeDescribeExec) // the table has other columns each time
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (changelog.Row, error) {
		var id int64
		v, err := scan(func(to any) error { return r.Scan(&id, to) })
		return changelog.Row{changelog.IntValue(id), v}, err
	})
}

// exactMicros is the microseconds of a column since 1970. Before Postgres 14 extract gave a double, which has no room for all of them at once.
const exactMicros = "extract(epoch FROM date_trunc('second', v))::bigint * 1000000 + extract(microseconds FROM v)::bigint % 1000000"

type scanner func(scan func(to any) error) (changelog.Value, error)

// scalar scans a column that may be NULL, and makes a value of what it holds.
func scalar[T any](value func(T) (changelog.Value, error)) scanner {
	return func(scan func(to any) error) (changelog.Value, error) {
		var p *T
		if err := scan(&p); err != nil || p == nil {
			return changelog.Value{}, err
		}
		return value(*p)
	}
}

func plain[T any](value func(T) changelog.Value) scanner {
	return scalar(func(v T) (changelog.Value, error) { return value(v), nil })
}

func micros(value func(sec int64, nsec int32) changelog.Value) scanner {
	return plain(func(n int64) changelog.Value {
		sec, rest := n/1e6, n%1e6
		if rest < 0 {
			sec, rest = sec-1, rest+1e6
		}
		return value(sec, int32(rest*1000))
	})
}

// nanosText reads timestamps that are kept as text, as a column of microseconds cannot hold them.
func nanosText(value func(sec int64, nsec int32) changelog.Value) scanner {
	return scalar(func(s string) (changelog.Value, error) {
		at, err := time.Parse("2006-01-02 15:04:05", strings.Replace(strings.TrimSuffix(s, "Z"), "T", " ", 1))
		return value(at.Unix(), int32(at.Nanosecond())), err
	})
}

func optional(n *int64) changelog.Value {
	if n == nil {
		return changelog.Value{}
	}
	return changelog.IntValue(*n)
}

func typeReader(t *changelog.Type) (expr string, _ scanner) {
	switch t.Root {
	case changelog.RootBoolean:
		return "v", plain(changelog.BoolValue)
	case changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt:
		return "v::bigint", plain(changelog.IntValue)
	case changelog.RootFloat:
		return "v", plain(changelog.FloatValue)
	case changelog.RootDouble:
		return "v", plain(changelog.DoubleValue)
	case changelog.RootDecimal:
		return "v::text", scalar(func(s string) (changelog.Value, error) {
			return changelog.ParseDecimal([]byte(s), t.Precision, t.Scale)
		})
	case changelog.RootChar, changelog.RootVarchar:
		return "v", plain(changelog.StringValue)
	case changelog.RootBinary, changelog.RootVarbinary:
		return "v", plain(changelog.BytesValue)
	case changelog.RootDate:
		return "(v - date '1970-01-01')::bigint", plain(changelog.DateValue)
	case changelog.RootTime:
		return "(extract(epoch FROM v) * 1000000000)::bigint", plain(changelog.TimeValue)
	case changelog.RootTimestamp:
		if t.Precision > 6 {
			return "v", nanosText(changelog.TimestampValue)
		}
		return exactMicros, micros(changelog.TimestampValue)
	case changelog.RootTimestampLTZ:
		if t.Precision > 6 {
			return "v", nanosText(changelog.TimestampLTZValue)
		}
		return exactMicros, micros(changelog.TimestampLTZValue)
	case changelog.RootIntervalYearMonth:
		return "(extract(year FROM v) * 12 + extract(month FROM v))::bigint", plain(changelog.IntValue)
	case changelog.RootIntervalDayTime:
		return "(extract(epoch FROM v) * 1000)::bigint", plain(changelog.IntValue)
	case changelog.RootArray:
		return "to_json(v)::text", scalar(func(s string) (changelog.Value, error) {
			var raw []any
			d := json.NewDecoder(strings.NewReader(s))
			d.UseNumber()
			err := d.Decode(&raw)
			elems := make([]changelog.Value, len(raw))
			for i, x := range raw {
				switch x := x.(type) {
				case string:
					elems[i] = changelog.StringValue(x)
				case json.Number:
					n, _ := x.Int64()
					elems[i] = changelog.IntValue(n)
				}
			}
			return changelog.ArrayValue(elems), err
		})
	case changelog.RootMap, changelog.RootMultiset:
		return "v::text", scalar(func(s string) (changelog.Value, error) {
			var m map[string]*int64
			err := json.Unmarshal([]byte(s), &m)
			var pairs []changelog.Value
			for k, n := range m {
				pairs = append(pairs, changelog.StringValue(k), optional(n))
			}
			return changelog.MapValue(pairs), err
		})
	case changelog.RootRow:
		return "v::text", scalar(func(s string) (changelog.Value, error) {
			var r struct {
				A *int64
				B *string
			}
			err := json.Unmarshal([]byte(s), &r)
			fields := []changelog.Value{optional(r.A), {}}
			if r.B != nil {
				fields[1] = changelog.StringValue(*r.B)
			}
			return changelog.RowValue(fields), err
		})
	}
	return "v", func(func(any) error) (changelog.Value, error) {
		return changelog.Value{}, fmt.Errorf("no reader for %s", t)
	}
}

// harnessLetters reads the dead letters.
func harnessLetters(ctx context.Context, e *env) ([]sink.DeadLetter, error) {
	rows, err := e.admin.Query(ctx, `SELECT topic, partition, message_offset, change_index, column_name, class, error, message_time, key, value,
		header_keys, header_values, changes FROM `+e.own+`.dead_letter ORDER BY number`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (sink.DeadLetter, error) {
		var l sink.DeadLetter
		var at *time.Time
		var keys, values [][]byte
		err := r.Scan(&l.Topic, &l.Partition.Partition, &l.Offset, &l.Index, &l.Column, &l.Class, &l.Error, &at, &l.Key, &l.Value, &keys, &values, &l.Changes)
		if at != nil {
			l.Timestamp = *at
		}
		for i, k := range keys {
			l.Headers = append(l.Headers, changelog.Header{Key: string(k), Value: values[i]})
		}
		return l, err
	})
}

// harnessLeftovers names sessions that hold a lock on one of the tables, and prepared transactions: a lane that is settled and closed has
// neither.
func harnessLeftovers(ctx context.Context, e *env) ([]string, error) {
	rows, err := e.admin.Query(ctx, `SELECT 'session ' || l.pid || ' locks ' || c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
		JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_stat_activity a ON a.pid = l.pid AND a.backend_type = 'client backend' -- and no autovacuum
		WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND n.nspname IN ($1, $2)
		UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE gid LIKE '%' || $3 || '%'
		UNION ALL SELECT 'temporary table ' || c.relname FROM pg_class c WHERE c.relpersistence = 't' AND c.relname LIKE '%sinktest%'`, e.schema, e.own, sinktest.Bridge)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
