package elastic

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// minAge is the youngest that Purge takes.
const minAge = time.Hour

// purgePage is how many tombstones are looked for at once.
const purgePage = 1000

// Purge takes away the tombstones of t that were written more than age ago, and returns how many. A tombstone is what refuses an older change of
// its key, so age has to be longer than any such change can still be on its way: longer than a process may be stopped and wake up, and than the
// time between two saved checkpoints of any lane. A day is plenty; below an hour is an ErrConfig. A rewind that raises the incarnation needs no
// tombstones.
//
// Each is deleted only if it is still the one that was found. What the server cannot take now is sent again for Options.Patience. An error leaves what was
// done done; Purge again goes on. A tombstone whose answer was lost is not counted.
func (s *Sink) Purge(ctx context.Context, t *changelog.Table, age time.Duration) (purged int, err error) {
	defer func() {
		if err != nil {
			err = &sink.Error{Op: "purge", Class: sink.ClassOf(err), Err: unclassed(err)}
		}
	}()
	if age < minAge {
		return 0, configf("age %v is below %v: a process that is stopped for longer could bring deleted rows back", age, minAge)
	}
	index, err := s.target(t)
	if err != nil {
		return 0, err
	}
	query := `{"range":{"` + DeletedField + `":{"lt":"` + time.Now().Add(-age).UTC().Format("2006-01-02T15:04:05.000Z") + `"}}}`
	for {
		var page []tombstone
		p := s.patience(firstPause)
		if err := p.retry(ctx, func() (err error) {
			page, err = s.tombstones(ctx, index, query)
			return err
		}); err != nil || len(page) == 0 {
			return purged, err
		}
		n, err := s.deleteExactly(ctx, &p, index, page)
		purged += n
		if err != nil {
			return purged, err
		}
		if n == 0 && p.left == p.whole {
			return purged, transientf("%d tombstones of index %s change while they are looked at", len(page), index)
		}
	}
}

type tombstone struct {
	Index   string `json:"_index"`
	ID      string `json:"_id"`
	Routing string `json:"_routing"`
	SeqNo   int64  `json:"_seq_no"`
	Term    int64  `json:"_primary_term"`
}

// tombstones returns a page of those that a search finds, after a refresh so that those just taken away are not found again.
func (s *Sink) tombstones(ctx context.Context, index, query string) ([]tombstone, error) {
	if err := s.refresh(ctx, index); err != nil {
		return nil, err
	}
	yes, size := true, purgePage
	f, err := search[tombstone](ctx, s, index, esapi.SearchRequest{Index: []string{index}, Body: strings.NewReader(`{"query":` + query + `}`), Size: &size, SeqNoPrimaryTerm: &yes, Source: []string{"false"}})
	if err != nil {
		return nil, err
	}
	return f.Hits.Hits, nil
}

// deleteExactly takes away those that still are what was found. A repeat after an answer that was lost finds what it took away itself in conflict.
func (s *Sink) deleteExactly(ctx context.Context, p *patience, index string, page []tombstone) (n int, err error) {
	items := make([][]byte, len(page))
	for i, t := range page {
		line := appendString([]byte(`{"delete":{"_id":`), []byte(t.ID))
		line = appendString(append(line, `,"_index":`...), []byte(t.Index))
		if t.Routing != "" {
			line = appendString(append(line, `,"routing":`...), []byte(t.Routing))
		}
		items[i] = fmt.Appendf(line, `,"if_seq_no":%d,"if_primary_term":%d}}`+"\n", t.SeqNo, t.Term)
	}
	var refusal error
	err = p.retryBulk(ctx, s, "take tombstones out of index "+index, esapi.BulkRequest{}, items, func(_ int, a *answer) {
		switch a.verdict() {
		case done:
			n++
		case conflict: // the row is back, or was deleted anew
		default:
			refusal = configf("a tombstone of index %s cannot be taken away: %w", index, a.why())
		}
	})
	return n, worst([]error{refusal, err})
}
