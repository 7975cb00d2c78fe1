package sinktest_test

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
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
	})
	fmt.Println(len(sinktest.Laws()), "laws, broken:", err)
	// Output: 29 laws, broken: <nil>
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
