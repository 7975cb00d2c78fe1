package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// What a simulation must come to, worked out from what was written and from the checkpoints that were decided.

// saved keeps what was decided, and compares it with what was decided before.
func (w *simWorld) saved(gen sink.Generation, cp sink.Checkpoint, err error) error {
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id := simWork{gen.ID, cp.ID}
	if w.known[id] {
		return nil
	}
	w.known[id] = true
	w.decided = append(w.decided, cp)
	if w.failed == nil && !cp.Counters.Balanced() {
		w.failed = fmt.Errorf("checkpoint %v does not account for what it read: %+v", id, cp.Counters)
	}
	for i, from := range cp.From {
		p, to := from.Partition.Partition, cp.To[i].Offset
		if at, ok := w.at[p]; w.failed == nil && (ok && at != from.Offset || to < from.Offset) {
			w.failed = fmt.Errorf("checkpoint %v takes partition %d from %d to %d, and %d was saved", id, p, from.Offset, to, at)
		}
		w.at[p] = to
		if id, ok := w.topic[p]; w.failed == nil && ok && id != cp.To[i].TopicID {
			w.failed = fmt.Errorf("checkpoint %v of partition %d is of topic %s, and that of before was of %s", simWork{gen.ID, cp.ID}, p, cp.To[i].TopicID, id)
		}
		w.topic[p] = cp.To[i].TopicID
	}
	w.total = w.total.Add(cp.Counters)
	return nil
}

// want returns what readers must see when the partitions are saved up to some offsets, and how many messages and changes that is.
func (w *simWorld) want(at map[int32]int64) (rows map[string]int, n sink.Counters) {
	rows = map[string]int{}
	for p, ms := range w.written {
		keyed := map[int64]string{}
		for _, m := range ms {
			if m.offset >= at[int32(p)] {
				break
			}
			n.Records++
			switch {
			case strings.HasPrefix(m.value, "bad"):
				n.Skipped++
				n.Read++
			case !w.plan.keyed:
				n.Read++
				rows[fmt.Sprintf("%d=%s", m.offset, m.value)]++
			default:
				for _, e := range simEvents(m.value) {
					n.Read++
					if delete(keyed, e.ID); e.Kind.Adds() {
						keyed[e.ID] = fmt.Sprintf("%d=%s", e.ID, e.V)
					}
				}
			}
		}
		for _, text := range keyed {
			rows[text]++
		}
	}
	return rows, n
}

// look sees whether something is visible that is not decided, or twice.
func (w *simWorld) look() {
	if w.plan.keyed { // what is late and what is gone look the same
		return
	}
	server, _, _ := w.db.now()
	rows, second := server.rows(), w.secondRows(server) // first, as positions only grow
	st, err := server.store().Read(context.Background(), "sim")
	if err != nil {
		w.fail("%v", err)
		return
	}
	at := map[int32]int64{}
	for _, p := range st.Positions {
		at[p.Partition.Partition] = p.Offset
	}
	want, _ := w.want(at)
	for _, rows := range []map[string]int{rows, second} {
		for text, n := range rows {
			if n > want[text] {
				w.fail("row %q is there %d times before it is decided, or more often than it was written", text, n)
				return
			}
		}
	}
}

// secondRows are what readers of the second sink see, nothing where there is none.
func (w *simWorld) secondRows(server simServer) map[string]int {
	if !w.plan.second {
		return nil
	}
	return server.(simPair).secondRows()
}

// complete compares what readers see with what was written.
func (w *simWorld) complete() error {
	server, _, _ := w.db.now()
	w.mu.Lock()
	at, total, anew := maps.Clone(w.at), w.total, w.anew
	w.mu.Unlock()
	if !anew {
		ends, err := w.adm.ListCommittedOffsets(context.Background(), simTopic)
		if err != nil {
			return err
		}
		for p := range int32(w.plan.parts) {
			if o, _ := ends.Lookup(simTopic, p); o.Offset != at[p] {
				return fmt.Errorf("partition %d is saved up to %d of %d", p, at[p], o.Offset)
			}
		}
	}
	st, err := server.store().Read(context.Background(), "sim")
	if err != nil {
		return err
	}
	for _, p := range st.Positions {
		if p.Offset != at[p.Partition.Partition] {
			return fmt.Errorf("the store holds %d of partition %d, %d was saved", p.Offset, p.Partition.Partition, at[p.Partition.Partition])
		}
	}
	rows := server.rows()
	want, n := w.want(at)
	if !maps.Equal(rows, want) {
		return fmt.Errorf("readers see other rows than were written: %s", difference(rows, want))
	}
	if second := w.secondRows(server); w.plan.second && !maps.Equal(second, want) {
		return fmt.Errorf("readers of the second sink see other rows than were written: %s", difference(second, want))
	}
	if total.Records != n.Records || total.Read != n.Read || total.Skipped != n.Skipped || !total.Balanced() {
		return fmt.Errorf("the checkpoints account for %+v, written were %d messages, %d changes, %d of them bad", total, n.Records, n.Read, n.Skipped)
	}
	return nil
}

func difference(got, want map[string]int) string {
	var out []string
	for text, n := range want {
		if got[text] < n {
			out = append(out, fmt.Sprintf("%q is missing", text))
		}
	}
	for text, n := range got {
		if n > want[text] {
			out = append(out, fmt.Sprintf("%q is there %d times and should %d times", text, n, want[text]))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 5)], ", ")
}
