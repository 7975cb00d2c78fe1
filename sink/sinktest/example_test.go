package sinktest_test

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// The suite on the memory sink. In a test of your own sink, call Run instead of Check, connect to a server, and let Reset empty it.
func ExampleCheck() {
	var server *sinktest.Server
	err := sinktest.Check(context.Background(), sinktest.Harness{
		Reset: func(ctx context.Context, t *changelog.Table) error {
			server = sinktest.NewServer()
			return nil
		},
		Connect: func(ctx context.Context, t *changelog.Table) (sinktest.Client, error) {
			return sinktest.Client{Sink: sinktest.NewSink(server, nil), Store: sinktest.NewStore(server)}, nil
		},
		Rows: func(ctx context.Context, t *changelog.Table) ([]sinktest.Row, error) {
			return sinktest.FixtureRows(server.Table(t.Name)), nil
		},
		Letters: func(ctx context.Context) ([]sink.DeadLetter, error) { return server.DeadLetters(), nil },
	})
	fmt.Println(len(sinktest.Laws()), "laws, broken:", err)
	// Output: 66 laws, broken: <nil>
}

// A Save whose answer is lost: End tells what became of it.
func ExampleFaulty() {
	ctx := context.Background()
	server, topic := sinktest.NewServer(), sinktest.NewTopic(sinktest.Keyed())
	topic.Put(0, sinktest.Insert(1, "a"), sinktest.UpdateAfter(1, "b"))

	faults := sinktest.Faulty(sinktest.Fault{Call: "save", When: sinktest.After})
	snk := faults.Sink(sinktest.NewSink(server, &sinktest.SinkOptions{InTransaction: true}))
	c, err := snk.Lane(ctx, sink.Lane{Bridge: sinktest.Bridge, Sink: sinktest.SinkName, Tables: []*changelog.Table{topic.Table}})
	if err != nil {
		fmt.Println(err)
		return
	}
	lane := sinktest.NewDriver(c, c.(sink.Store), topic)
	lane.Acquire(ctx, 0)
	lane.Open(ctx)
	lane.Write(ctx, -1)
	lane.Prepare(ctx)
	fmt.Println(lane.Save(ctx))
	id, err := lane.End(ctx)
	fmt.Println("saved:", id, err)
	fmt.Println("rows:", sinktest.FixtureRows(server.Table(sinktest.KeyedTable)))
	fmt.Println("fired:", faults.Fired())
	// Output:
	// flinksink: save: uncertain: injected fault: save 1 after
	// saved: 1 <nil>
	// rows: [{1 b}]
	// fired: <nil>
}

// What a program does with an update, a delete and an aborted transaction is tested on records in memory, in the encoding that Flink writes.
func ExampleLog() {
	table, _ := ddl.Find(`CREATE TABLE orders (id BIGINT, customer STRING, PRIMARY KEY (id) NOT ENFORCED)
		WITH ('connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json', 'value.format' = 'json')`, "orders")
	encoder, err := format.NewEncoder(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	topic := sinktest.NewLog(encoder)
	topic.Insert(0, 1, "ann")
	tx := topic.Begin()
	tx.Insert(0, 2, "never")
	tx.Abort()
	topic.Delete(0, 1)
	records, err := topic.Records(0)
	for _, r := range records {
		fmt.Printf("offset %d: %s is %q\n", r.Offset, r.Key, r.Value)
	}
	fmt.Println(err)
	// Output:
	// offset 0: {"id":1} is "{\"id\":1,\"customer\":\"ann\"}"
	// offset 3: {"id":1} is ""
	// <nil>
}

// A store's Save fails at the third try of every run, and every other Commit loses its answer.
func ExampleFault_injector() {
	faults := sinktest.Faulty(
		sinktest.Fault{If: sinktest.And(sinktest.Calling("save"), sinktest.OnCall(3))},
		sinktest.Fault{Call: "commit", If: sinktest.Random(0.5, 7), When: sinktest.After})
	fmt.Println(faults.Fired())

	fault, err := sinktest.ParseFault("save if And(OnCall(3), Not(Random(0.5, 7))) after")
	fmt.Println(fault, err)
	// Output:
	// sinktest: fault "any if And(Calling(save), OnCall(3)) before" never fired; the calls were: none
	// sinktest: fault "commit if Random(0.5, 7) after" never fired; the calls were: none
	// save if And(OnCall(3), Not(Random(0.5, 7))) after <nil>
}
