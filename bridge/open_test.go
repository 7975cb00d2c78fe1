package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/franz-go/pkg/kadm"
)

func TestOpenTransaction_Cure(t *testing.T) {
	p := changelog.Partition{Topic: "orders", Partition: 3}
	for _, c := range []struct {
		t    OpenTransaction
		want string
	}{
		{OpenTransaction{Partition: p, LastStableOffset: 17, TransactionalID: "tx", ProducerID: 5}, `the producer with the transactional id "tx" commit or abort`},
		{OpenTransaction{Partition: p, LastStableOffset: 17, ProducerID: 5}, "the producer with the producer id 5 commit or abort"},
		{OpenTransaction{Partition: p, LastStableOffset: 17, ProducerID: -1}, "(kafka-transactions.sh list and describe-producers name it) commit or abort"},
	} {
		if got := c.t.Cure(); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "abort --topic orders --partition 3 --start-offset 17") {
			t.Errorf("%+v: %q", c.t, got)
		}
	}
}

// A transaction that hangs on a real broker is told with its id, and what Kafka's tool does by the command that the cure names gets the bridge
// past it: the marker is written for the producer whose transaction begins at that offset, and what it had written is never read.
func TestJava_HangingTransaction(t *testing.T) {
	k, _ := java(t, 1)
	g := newTarget()
	k.put(0, "a0")
	k.begin(k.topic+"-hangs", 0, "never") // 1
	k.put(0, "behind")                    // 2
	told := make(chan OpenTransaction, 1)
	o := options(g)
	o.OpenFor = time.Millisecond
	o.Hooks.OpenTransaction = func(x OpenTransaction) { told <- x }
	r := start(t, k.javaBridge(g, o))
	var x OpenTransaction
	over, stop := expires()
	defer stop()
	select {
	case x = <-told:
	case <-over:
		t.Fatal("nothing was told")
	}
	if x.TransactionalID != k.topic+"-hangs" || !strings.Contains(x.Cure(), "abort --topic "+k.topic+" --partition 0 --start-offset 1") {
		t.Fatalf("told %+v: %s", x, x.Cure())
	}

	var s kadm.TopicsSet
	s.Add(k.topic, 0)
	described, err := k.adm.DescribeProducers(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var markers []kadm.TxnMarkers
	described.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset == x.LastStableOffset {
			markers = append(markers, kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, CoordinatorEpoch: max(p.CoordinatorEpoch, 0), Topics: s})
		}
	})
	if len(markers) != 1 || markers[0].ProducerID != x.ProducerID {
		t.Fatalf("the producers of the partition: %+v", described)
	}
	if _, err := k.adm.WriteTxnMarkers(t.Context(), markers...); err != nil {
		t.Fatal(err)
	}
	g.wantValues(t, []string{"a0", "behind"}, r)
	until(t, "the status to say so", func() bool { return len(r.b.Status().Open) == 0 }, r)
	r.end()
}
