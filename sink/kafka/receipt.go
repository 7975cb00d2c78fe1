package kafka

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// receiptVersion is that of [sink.Committable.Data]. A change that an older release would misread raises it; testdata has one of each version.
const receiptVersion = 1

// receipt names one transaction, and where its end can be read.
type receipt struct {
	producer
	version int16 // of the cluster's transactions when it was prepared
	timeout time.Duration
	at      time.Time // when it was prepared, by the clock of the process
	wrote   []wrote   // at least one
}

// wrote is the last record of a transaction in one partition. The first end of a transaction of the producer behind it is this one's.
type wrote struct {
	place
	topicID [16]byte
	last    int64
}

type receiptJSON struct {
	ID      string      `json:"transactional_id"`
	PID     int64       `json:"producer_id"`
	Epoch   int16       `json:"producer_epoch"`
	Version int16       `json:"transaction_version"`
	Timeout int64       `json:"timeout_ms"`
	At      time.Time   `json:"prepared"`
	Topics  []topicJSON `json:"topics"`
}

type topicJSON struct {
	Topic string     `json:"topic"`
	ID    string     `json:"id"`
	Last  [][2]int64 `json:"last"` // partition, offset of the last record
}

func (r receipt) encode() ([]byte, error) {
	j := receiptJSON{ID: r.id, PID: r.pid, Epoch: r.epoch, Version: r.version, Timeout: r.timeout.Milliseconds(), At: r.at}
	for _, w := range r.wrote {
		i := slices.IndexFunc(j.Topics, func(t topicJSON) bool { return t.Topic == w.topic })
		if i < 0 {
			j.Topics, i = append(j.Topics, topicJSON{Topic: w.topic, ID: base64.StdEncoding.EncodeToString(w.topicID[:])}), len(j.Topics)
		}
		j.Topics[i].Last = append(j.Topics[i].Last, [2]int64{int64(w.partition), w.last})
	}
	return json.Marshal(j)
}

func parseReceipt(c sink.Committable) (receipt, error) {
	if c.Version != receiptVersion {
		return receipt{}, refuse(sink.ErrConfig, "the receipt of checkpoint %d.%d is in version %d, and this release reads version %d: use the release that wrote it, or a newer one",
			c.Generation, c.Checkpoint, c.Version, receiptVersion)
	}
	var j receiptJSON
	if err := json.Unmarshal(c.Data, &j); err != nil {
		return receipt{}, refuse(sink.ErrLost, "the receipt of checkpoint %d.%d is damaged: %w", c.Generation, c.Checkpoint, err)
	}
	r := receipt{producer: producer{j.ID, j.PID, j.Epoch}, version: j.Version, timeout: time.Duration(j.Timeout) * time.Millisecond, at: j.At}
	for _, t := range j.Topics {
		id, err := base64.StdEncoding.DecodeString(t.ID)
		if err != nil || len(id) != 16 {
			return receipt{}, refuse(sink.ErrLost, "the receipt of checkpoint %d.%d is damaged: no id of topic %q", c.Generation, c.Checkpoint, t.Topic)
		}
		for _, l := range t.Last {
			r.wrote = append(r.wrote, wrote{place{t.Topic, int32(l[0])}, [16]byte(id), l[1]})
		}
	}
	if r.id == "" || r.pid < 0 || r.epoch < 0 || len(r.wrote) == 0 {
		return receipt{}, refuse(sink.ErrLost, "the receipt of checkpoint %d.%d is damaged: it names no transaction", c.Generation, c.Checkpoint)
	}
	return r, nil
}

// sorted puts partitions in one order, so that equal work gives equal receipts.
func sorted(last map[place]int64, id func(topic string) [16]byte) []wrote {
	out := make([]wrote, 0, len(last))
	for at, offset := range last {
		out = append(out, wrote{at, id(at.topic), offset})
	}
	slices.SortFunc(out, func(a, b wrote) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return out
}

// lost says what is missing, and from where to read it again.
func lost(c sink.Committable, format string, a ...any) error {
	return refuse(sink.ErrLost, "checkpoint %d.%d, from %v to %v: %s", c.Generation, c.Checkpoint, c.From, c.To, fmt.Sprintf(format, a...))
}
