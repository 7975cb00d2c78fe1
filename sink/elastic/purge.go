package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
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
// Each is deleted only if it is still the one that was found. An error leaves what was done done; Purge again goes on.
func (s *Sink) Purge(ctx context.Context, t *changelog.Table, age time.Duration) (purged int, err error) {
	defer func() {
		if err != nil {
			err = &sink.Error{Op: "purge", Class: sink.ClassOf(err), Err: err}
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
		page, err := s.tombstones(ctx, index, query)
		if err != nil || len(page) == 0 {
			return purged, err
		}
		n, err := s.deleteExactly(ctx, index, page)
		purged += n
		if err != nil {
			return purged, err
		}
		if n == 0 {
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
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	yes, size := true, purgePage
	body := strings.NewReader(`{"query":` + query + `}`)
	res, err := esapi.SearchRequest{Index: []string{index}, Body: body, Size: &size, SeqNoPrimaryTerm: &yes, Source: []string{"false"}}.Do(ctx, s.client)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, refusedCall("search index "+index, res)
	}
	var answer struct {
		searched
		Hits struct {
			Hits []tombstone `json:"hits"`
		} `json:"hits"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, transientf("the answer to a search of index %s cannot be read: %w", index, withoutText(err))
	}
	return answer.Hits.Hits, answer.whole(index)
}

func (s *Sink) deleteExactly(ctx context.Context, index string, page []tombstone) (int, error) {
	var body bytes.Buffer
	for _, t := range page {
		body.WriteString(`{"delete":{"_id":`)
		body.Write(appendString(nil, []byte(t.ID)))
		body.WriteString(`,"_index":`)
		body.Write(appendString(nil, []byte(t.Index)))
		if t.Routing != "" {
			body.WriteString(`,"routing":`)
			body.Write(appendString(nil, []byte(t.Routing)))
		}
		body.WriteString(`,"if_seq_no":` + strconv.FormatInt(t.SeqNo, 10) + `,"if_primary_term":` + strconv.FormatInt(t.Term, 10) + "}}\n")
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	res, err := esapi.BulkRequest{Body: &body, FilterPath: answerPath}.Do(ctx, s.client)
	if err != nil {
		return 0, lost(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return 0, refusedCall("take tombstones out of index "+index, res)
	}
	answers, err := readAnswers(io.LimitReader(res.Body, maxAnswer), len(page))
	if err != nil {
		return 0, transientf("%w", err)
	}
	n := 0
	for i := range answers {
		switch answers[i].verdict() {
		case done:
			n++
		case conflict: // the row is back, or was deleted anew
		case later:
			return n, transientf("%w", answers[i].why())
		default:
			return n, configf("%w", fmt.Errorf("a tombstone of index %s cannot be taken away: %w", index, answers[i].why()))
		}
	}
	return n, nil
}
