package sink_test

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/sinktest"
)

// nowhere is a source that is never sent back.
type nowhere struct{}

func (nowhere) Begin(_ context.Context, ps []changelog.Partition) (at []changelog.Position, err error) {
	for _, p := range ps {
		at = append(at, changelog.Position{Partition: p})
	}
	return at, nil
}
func (nowhere) Seek(context.Context, []changelog.Position) error { return nil }
func (nowhere) Pause(...changelog.Partition)                     {}
func (nowhere) Resume(...changelog.Partition)                    {}

// An outer engine keeps the checkpoint's bytes. The process that took them dies before it can complete; whoever restores them does it.
func ExampleExternal() {
	ctx := context.Background()
	server, topic := sinktest.NewServer(), sinktest.NewTopic(sinktest.Keyed())
	topic.Put(0, sinktest.Insert(1, "ann"), sinktest.Insert(2, "bob"))
	number := sink.GenerationID(0) // durable, in an engine that is one
	next := func(context.Context) (sink.GenerationID, error) { number++; return number, nil }
	start := func(state []byte) (*sink.External, []changelog.Position) {
		x, err := sink.NewExternal(ctx, sink.Options{Bridge: "orders", Source: nowhere{}, Tables: []*changelog.Table{topic.Table},
			Sinks: []sink.Declared{{Name: "memory", Sink: sinktest.NewSink(server, nil)}}}, next)
		if err != nil {
			panic(err)
		}
		at, err := x.Restore(ctx, []changelog.Partition{topic.Partition(0)}, state)
		fmt.Println("reads from", at, err)
		return x, at
	}
	first, at := start(nil)
	batch, to := topic.Read(at, -1)
	first.Write(ctx, batch, sink.Progress{To: to, Records: 2})
	state, err := first.Barrier(ctx, 1)
	fmt.Println("prepared:", err, "visible:", len(server.Table(sinktest.KeyedTable)))
	// The engine makes state durable, and the process dies.
	start(state)
	fmt.Println("restored, visible:", len(server.Table(sinktest.KeyedTable)))
	// Output:
	// reads from [sinktest_keyed/0@0] <nil>
	// prepared: <nil> visible: 0
	// reads from [sinktest_keyed/0@2] <nil>
	// restored, visible: 2
}
