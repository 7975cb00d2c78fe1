package bridge

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestZZTry(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("TRIALS"))
	const B = 40
	c, err := kfake.NewCluster(kfake.NumBrokers(B), kfake.SeedTopics(B, "texts"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumerGroup("x"), kgo.ConsumeTopics("texts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.FetchMaxWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var all []int32
	for p := range int32(B) {
		all = append(all, p)
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "texts", Partition: p, Value: []byte("a")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < B; {
		got += cl.PollRecords(t.Context(), 1000).NumRecords()
	}
	p := map[string][]int32{"texts": all}
	stuck := 0
	set := func(o int64) {
		m := map[int32]kgo.EpochOffset{}
		for _, p := range all {
			m[p] = kgo.EpochOffset{Epoch: -1, Offset: o}
		}
		cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{"texts": m})
	}
	for range n {
		cl.PauseFetchPartitions(p)
		for i := range 20 {
			set(int64(i % 2))
		}
		set(0)
		cl.ResumeFetchPartitions(p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		got := 0
		for got < B && ctx.Err() == nil {
			got += cl.PollRecords(ctx, 1000).NumRecords()
		}
		if got < B {
			stuck++
			cl.ResumeFetchPartitions(nil)
			for got < B {
				got += cl.PollRecords(t.Context(), 1000).NumRecords()
			}
		}
		cancel()
	}
	t.Logf("%d of %d stuck", stuck, n)
}
