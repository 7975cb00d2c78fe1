// Command callbacks shows an outer engine that decides about checkpoints and keeps their bytes, as a stream processor or a batch job does, and
// calls flinksink by sink.External: Restore, Write, Barrier, Complete.
//
//	go run ./examples/callbacks
//
// Everything is in this process: the topic, and a sink in memory that outlives the runs. The first run dies between the engine's decision and
// Complete, the second one before the decision; the third reads to the end. Each row is there once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

const createTable = `CREATE TABLE orders (id BIGINT, customer STRING) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json')`

// job is one run.
type job struct {
	*sink.External
	out     io.Writer
	decoder changelog.Decoder
	topic   *sinktest.Log
	next    int64 // offset to read
}

// Begin, Seek, Pause and Resume are the sink.Source of the job.

func (j *job) Begin(_ context.Context, ps []changelog.Partition) (at []changelog.Position, err error) {
	for _, p := range ps {
		at = append(at, changelog.Position{Partition: p, LeaderEpoch: -1})
	}
	return at, nil
}

func (j *job) Seek(_ context.Context, to []changelog.Position) error {
	j.next = to[0].Offset
	return nil
}

func (j *job) Pause(...changelog.Partition)  {}
func (j *job) Resume(...changelog.Partition) {}

// errDied stands for a process that is gone: nothing is called any more.
var errDied = errors.New("the process died")

// run carries the topic over, two messages a checkpoint, and dies at a step of a checkpoint.
func run(ctx context.Context, out io.Writer, e *engine, to sink.Sink, topic *sinktest.Log, dies string) error {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return err
	}
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	begun, err := e.begin()
	if err != nil {
		return err
	}
	j := &job{out: out, decoder: decoder, topic: topic}
	j.External, err = sink.NewExternal(ctx, sink.Options{Bridge: "orders", Source: j, Tables: []*changelog.Table{decoder.Table()},
		Sinks: []sink.Declared{{Name: "memory", Sink: to}}}, e.next(begun.Run))
	if err != nil {
		return err
	}
	at, err := j.Restore(ctx, []changelog.Partition{{Topic: "orders"}}, begun.State)
	if err != nil {
		return err
	}
	j.next = at[0].Offset
	fmt.Fprintf(out, "run %d restores checkpoint %d and reads from offset %d\n", begun.Run, begun.ID, j.next)

	for id := begun.ID + 1; j.next < topic.End(0); id++ {
		if err := j.read(ctx, 2); err != nil {
			return err
		}
		state, err := j.Barrier(ctx, id)
		if errors.Is(err, sink.ErrTransient) {
			continue // read again from the last checkpoint that counts, under another number
		}
		if err != nil {
			return err
		}
		if dies == fmt.Sprint("before decision ", id) {
			return errDied
		}
		if err := e.decide(begun.Run, id, state); err != nil {
			return err
		}
		if dies == fmt.Sprint("after decision ", id) {
			return errDied
		}
		if err := j.Complete(ctx, id); err != nil {
			return err
		}
		fmt.Fprintf(out, "run %d completed checkpoint %d, up to offset %d\n", begun.Run, id, j.next)
	}
	return j.Close(ctx)
}

// read writes the next messages.
func (j *job) read(ctx context.Context, most int) error {
	records, err := j.topic.Records(0)
	if err != nil {
		return err
	}
	b, n := changelog.NewBatch(j.decoder.Table()), int64(0)
	for i := range records {
		if r := &records[i]; r.Offset >= j.next && n < int64(most) {
			if err := j.decoder.Decode(b, r); err != nil {
				return err
			}
			j.next, n = r.Offset+1, n+1
		}
	}
	return j.Write(ctx, b, sink.Progress{Records: n, To: []changelog.Position{{Partition: changelog.Partition{Topic: "orders"}, Offset: j.next, LeaderEpoch: -1}}})
}

func show(ctx context.Context, out io.Writer, folder string) error {
	table, err := ddl.Find(createTable, "orders")
	if err != nil {
		return err
	}
	encoder, err := format.NewEncoder(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	topic, server := sinktest.NewLog(encoder), sinktest.NewServer()
	for id, customer := range []string{"ann", "bob", "cid", "dan", "eve", "fay"} {
		topic.Insert(0, id, customer)
	}
	e := &engine{path: filepath.Join(folder, "engine.json")}
	for _, dies := range []string{"after decision 1", "before decision 2", "never"} {
		err := run(ctx, out, e, sinktest.NewSink(server, nil), topic, dies)
		if errors.Is(err, errDied) {
			fmt.Fprintf(out, "the process died %s; readers see %d rows\n", dies, len(server.Table("orders")))
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, row := range server.Table("orders") {
		fmt.Fprintln(out, row[0].Int(), row[1].Str())
	}
	return nil
}

func main() {
	folder, err := os.MkdirTemp("", "callbacks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := show(context.Background(), os.Stdout, folder); err != nil {
		log.Print(err)
	}
}
