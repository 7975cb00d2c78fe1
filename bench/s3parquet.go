package main

import (
	"context"
	"io"
	"time"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/s3/parquet"
	parquetgo "github.com/parquet-go/parquet-go"
)

// Rows as one writes them by hand for parquet-go. A column of the table may be NULL, so it is optional here too.
type (
	narrowRow struct {
		ID    *int64   `parquet:"id,optional"`
		Cust  *string  `parquet:"cust,optional"`
		Qty   *int64   `parquet:"qty,optional"`
		Price *float64 `parquet:"price,optional"`
	}
	wideRow struct {
		ID  *int64   `parquet:"id,optional"`
		C01 *string  `parquet:"c01,optional"`
		C02 *int64   `parquet:"c02,optional"`
		C03 *float64 `parquet:"c03,optional"`
		C04 *string  `parquet:"c04,optional"`
		C05 *string  `parquet:"c05,optional"`
		C06 *int64   `parquet:"c06,optional"`
		C07 *float64 `parquet:"c07,optional"`
		C08 *string  `parquet:"c08,optional"`
		C09 *string  `parquet:"c09,optional"`
		C10 *int64   `parquet:"c10,optional"`
		C11 *float64 `parquet:"c11,optional"`
		C12 *string  `parquet:"c12,optional"`
		C13 *string  `parquet:"c13,optional"`
		C14 *int64   `parquet:"c14,optional"`
		C15 *float64 `parquet:"c15,optional"`
		C16 *string  `parquet:"c16,optional"`
		C17 *string  `parquet:"c17,optional"`
		C18 *int64   `parquet:"c18,optional"`
		C19 *float64 `parquet:"c19,optional"`
	}
)

func ptr[T any](v any) *T {
	t := v.(T)
	return &t
}

func narrowOf(v []any) narrowRow {
	return narrowRow{ptr[int64](v[0]), ptr[string](v[1]), ptr[int64](v[2]), ptr[float64](v[3])}
}

func wideOf(v []any) wideRow {
	s, i, f := ptr[string], ptr[int64], ptr[float64]
	return wideRow{i(v[0]), s(v[1]), i(v[2]), f(v[3]), s(v[4]), s(v[5]), i(v[6]), f(v[7]), s(v[8]), s(v[9]), i(v[10]), f(v[11]), s(v[12]), s(v[13]), i(v[14]), f(v[15]), s(v[16]), s(v[17]), i(v[18]), f(v[19])}
}

// readyRows is how many different rows those have that need them in memory; they are written over and over.
const readyRows = 20_000

// parquetAlone makes the two that write rows which are ready in memory: the sink's file format, and parquet-go's own writer with the same settings.
func (k *lakeSection) parquetAlone() (ours, generic func(context.Context) (time.Duration, error), err error) {
	in, err := lakeInput(k.shape, k.s.broker, k.topic)
	if err != nil {
		return nil, nil, err
	}
	format, err := parquet.New(nil).Table(in.Decoder.Table())
	if err != nil {
		return nil, nil, err
	}
	ready := changelog.NewBatch(in.Decoder.Table())
	for i := range min(k.n, readyRows) {
		if err := in.Decoder.Decode(ready, &changelog.Record{Offset: int64(i), Value: k.shape.Value(k.shape.Row(int64(i), 0))}); err != nil {
			return nil, nil, err
		}
	}
	ours = func(context.Context) (time.Duration, error) {
		began := time.Now()
		f, err := format.NewFile(io.Discard)
		if err != nil {
			return 0, err
		}
		for i := range k.n {
			if err := f.WriteRow(&ready.Changes[i%len(ready.Changes)]); err != nil {
				return 0, err
			}
		}
		err = f.Close() // the last row group
		return time.Since(began), err
	}
	if k.shape.Name == "wide" {
		return ours, genericWriter(k, wideOf), nil
	}
	return ours, genericWriter(k, narrowOf), nil
}

// genericWriter ends row groups where the sink's format does, by the bytes of their values.
func genericWriter[T any](k *lakeSection, of func([]any) T) func(context.Context) (time.Duration, error) {
	ready, bytes := make([]T, min(k.n, readyRows)), 0
	for i := range ready {
		row := k.shape.Row(int64(i), 0)
		ready[i] = of(row)
		bytes += valueBytes(k.shape, row)
	}
	group := max(1, (32<<20)/max(1, bytes/len(ready)))
	return func(context.Context) (time.Duration, error) {
		began := time.Now()
		w := parquetgo.NewGenericWriter[T](io.Discard, parquetgo.Compression(&parquetgo.Snappy), parquetgo.DataPageStatistics(true), parquetgo.MaxRowsPerRowGroup(int64(group)))
		const portion = 1000
		for left, at := k.n, 0; left > 0; {
			part := ready[at:min(at+min(portion, left), len(ready))]
			if _, err := w.Write(part); err != nil {
				return 0, err
			}
			left, at = left-len(part), (at+len(part))%len(ready)
		}
		err := w.Close() // the last row group
		return time.Since(began), err
	}
}

// valueBytes is about what the values of a row take.
func valueBytes(s *rows.Shape, row []any) (n int) {
	for i, c := range s.Columns {
		if n += 8; c.Kind == rows.Text {
			n += len(row[i].(string)) - 8
		}
	}
	return n
}
