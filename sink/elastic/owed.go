package elastic

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// owed sends deletes a second time, where they are Hard and the first time may not have been enough.
//
// An older write that reaches the server after a delete is refused as long as the server knows the delete's version, which it does not after a restart of the
// shard. Such a write was sent before the delete was: by a generation that had ended, or by this one, which got no answer and sent it again. Neither is on its
// way for longer than reach: a lane sends for one lease after its generation was over, gives up a request after another, and the server, which is told so,
// after a third; the fourth is for clocks. So a delete that is sent at a time when such a write may still be on its way, which is within reach of an Open
// and of an answer that was lost, is owed: it is sent again once reach has passed, with the same version. Then nothing older comes any more, and what had come
// meanwhile is gone. It can harm nothing: a row that is newer has a higher version.
//
// What is owed outlives the process. It is noted in Options.ControlIndex, as the very lines of the bulk, before the positions behind the deletes are
// saved (Prepare waits for it); any later generation of the bridge pays it, in Open or when it is due, and takes the note away. A note that is paid twice, or late, by
// anybody, does no harm either, so nothing has to be fenced.
//
// Why notes, when the topic can be read again: what this sink deletes is not what the topic says. A filter turns updates into deletes, a row
// moves to another index, the data policy leaves messages out, a compacted topic forgets its own deletes, and an offset says nothing of when it was written here:
// a lane that is an hour behind, or that reads a backlog, has deletes of a minute ago under any timestamp. The lines say exactly what to send, whoever drives
// the sink. A lane that has been open for longer than reach and loses no answers notes nothing.
type owed struct {
	s     *Sink
	owner string          // which notes are ours: of the bridge and sink
	reach time.Duration   // see above
	say   func(err error) // tells Options.Owing
	ctx   context.Context
	stop  context.CancelFunc

	mu      sync.Mutex
	since   time.Time // when a write began to be on its way last that a delete may be overtaken by
	timer   *time.Timer
	armed   bool
	over    bool
	failed  bool // the last payment in the background
	running sync.WaitGroup

	telling sync.Mutex // orders what Options.Owing is told
	behind  bool       // it was told why, and not yet that all is well
}

// maxLease bounds the lease where index.gc_deletes is long, and with it what is owed.
const (
	maxLease = 30 * time.Second
	reach    = 4 * maxLease
)

const (
	// noteBytes bounds the lines of a note. With the escapes that make them one text, it is below the least http.max_content_length (1 MB).
	noteBytes = 256 << 10
	notePage  = 16
)

// openOwed pays what is due, and begins to note deletes.
func (c *committer) openOwed(ctx context.Context) error {
	sum := sha256.Sum256([]byte(c.lane.Bridge + "\x00" + c.lane.Sink))
	o := &owed{s: c.s, owner: hex.EncodeToString(sum[:]), reach: reach, since: time.Now()}
	o.say = func(err error) {
		if err != nil {
			err = c.classed("send deletes again", err)
		}
		c.s.o.Owing(err)
	}
	o.ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	o.behind = c.behind
	next, err := o.pay(ctx)
	c.behind = o.behind
	if err != nil {
		o.stop()
		return err
	}
	c.owed = o
	o.arm(next)
	return nil
}

// close ends payments in the background. What is owed stays noted.
func (o *owed) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.over = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.mu.Unlock()
	o.stop()
	o.running.Wait()
}

// due reports whether deletes that are sent now are owed.
func (o *owed) due() bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now() // of the clock that stands still while a machine sleeps and the one that can be set, the one that says less
	return min(now.Sub(o.since), now.Round(0).Sub(o.since.Round(0))) < o.reach
}

// lost says that a request may still be on its way.
func (o *owed) lost() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = time.Now()
}

// watch notices that the client sends a request again by itself, after an answer that only it knows was lost.
func (o *owed) watch(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	var tries atomic.Int64
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if tries.Add(1) > 1 {
			o.lost()
		}
	}})
}

// notes returns the lines of the deletes of b, as bulk requests that write them down.
func (o *owed) notes(b *bulk) (out [][]byte) {
	var lines []byte
	done := func() {
		if len(lines) == 0 {
			return
		}
		var id [16]byte
		_, _ = rand.Read(id[:])
		note := fmt.Appendf(nil, `{"index":{"_id":"owed-%x"}}`+"\n"+`{"owner":"%s","noted":%d,"index":`, id, o.owner, time.Now().UnixMilli())
		note = append(appendString(note, []byte(b.plan.path())), `,"deletes":`...)
		note = append(appendString(note, lines), "}\n"...)
		out, lines = append(out, note), lines[:0]
	}
	for i := range b.items {
		if it := &b.items[i]; it.delete {
			lines = append(lines, b.buf[it.start:it.end]...)
		}
		if len(lines) >= noteBytes {
			done()
		}
	}
	done()
	return out
}

// write writes a note down.
func (o *owed) write(ctx context.Context, note []byte) error {
	if err := o.control(ctx, note, 1); err != nil {
		return err
	}
	o.arm(o.reach)
	return nil
}

// control sends a bulk of n items to the control index.
func (o *owed) control(ctx context.Context, body []byte, n int) error {
	answers, err := o.s.bulk(ctx, o.s.o.ControlIndex, body, n)
	if err != nil {
		return err
	}
	for i := range answers {
		switch a := &answers[i]; a.verdict() {
		case done:
		case later, conflict:
			return transientf("index %s does not take a note of deletes: %w", o.s.o.ControlIndex, a.why())
		default:
			return configf("index %s, which Options.ControlIndex names, does not take a note of deletes: %w", o.s.o.ControlIndex, a.why())
		}
	}
	return nil
}

// bulk sends a request that is none of a lane's.
func (s *Sink) bulk(ctx context.Context, index string, body []byte, n int) ([]answer, error) {
	return s.sendBulk(ctx, "write into index "+index, esapi.BulkRequest{Index: index, Body: bytes.NewReader(body)}, n)
}

// sendBulk sends a bulk of n items once. what it does is for errors.
func (s *Sink) sendBulk(ctx context.Context, what string, r esapi.BulkRequest, n int) ([]answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	defer cancel()
	r.FilterPath = answerPath
	res, err := r.Do(ctx, s.client)
	if err != nil {
		return nil, lost(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, refusedCall(what, res)
	}
	answers, err := readAnswers(io.LimitReader(res.Body, maxAnswer), n)
	if err != nil {
		return nil, transientf("the answer to a bulk request cannot be read: %w", err)
	}
	return answers, nil
}

// arm has payments made after a while, if none are to be made before.
func (o *owed) arm(after time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if after <= 0 || o.armed || o.over {
		return
	}
	o.armed = true
	o.timer = time.AfterFunc(after, o.turn)
}

func (o *owed) turn() {
	o.mu.Lock()
	o.armed = false
	if o.over {
		o.mu.Unlock()
		return
	}
	o.running.Add(1)
	o.mu.Unlock()
	defer o.running.Done()
	next, err := o.pay(o.ctx)
	if err != nil {
		next = maxLease
	}
	o.mu.Lock()
	o.failed = err != nil
	o.mu.Unlock()
	o.arm(next)
}

// check pays in the foreground what could not be paid in the background, so that somebody hears why.
func (o *owed) check(ctx context.Context) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	failed := o.failed
	o.mu.Unlock()
	if !failed {
		return nil
	}
	next, err := o.pay(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.failed = false
	o.mu.Unlock()
	o.arm(next)
	return nil
}

// note is one that was written down.
type note struct {
	ID     string `json:"_id"`
	Source struct {
		Noted   int64  `json:"noted"` // milliseconds since 1970
		Index   string `json:"index"` // "": each line names its own
		Deletes string `json:"deletes"`
	} `json:"_source"`
}

// pay sends all deletes that are due, and returns when the next are; 0: none are noted. What the server does not take stays noted, and holds up nothing
// else. Where it cannot take it now, Options.Owing is told why, as it is of every error; where it never will, that is an error: a row may be back, and only a person can say
// what becomes of it.
func (o *owed) pay(ctx context.Context) (next time.Duration, err error) {
	next, wait, err := o.payAll(ctx)
	o.tell(ctx, worst([]error{err, wait}))
	return next, err
}

// tell tells Options.Owing what stands in the way, or once that nothing does any more. What a stop broke off is no news.
func (o *owed) tell(ctx context.Context, err error) {
	o.telling.Lock()
	defer o.telling.Unlock()
	if o.s.o.Owing == nil || ctx.Err() != nil || err == nil && !o.behind {
		return
	}
	o.behind = err != nil
	o.say(err)
}

func (o *owed) payAll(ctx context.Context) (next time.Duration, wait, err error) {
	left := 0 // notes that stay, at the front
	for {
		page, err := o.page(ctx, left)
		if err != nil {
			return 0, wait, err
		}
		var paid []byte
		n := 0
		for i := range page {
			age := time.Since(time.UnixMilli(page[i].Source.Noted))
			if age < o.reach {
				next = o.reach - age
				break
			}
			stays, err := o.resend(ctx, &page[i])
			if err != nil {
				return 0, wait, err
			}
			if stays != nil {
				left++
				wait = worst([]error{wait, stays})
				continue
			}
			paid, n = append(appendString(append(paid, `{"delete":{"_id":`...), []byte(page[i].ID)), "}}\n"...), n+1
		}
		if n > 0 {
			// A note that somebody else took away answers 404, as one that was there answers 200.
			if err := o.control(ctx, paid, n); err != nil {
				return 0, wait, err
			}
		}
		if next > 0 || len(page) < notePage {
			break
		}
	}
	if left > 0 {
		next = maxLease
	}
	if wait != nil && !errors.Is(sink.ClassOf(wait), sink.ErrTransient) {
		return next, nil, wait
	}
	return next, wait, nil
}

// page returns notes, the oldest first.
func (o *owed) page(ctx context.Context, from int) ([]note, error) {
	index := o.s.o.ControlIndex
	if err := o.s.refresh(ctx, index); err != nil {
		return nil, err
	}
	body := `{"size":` + strconv.Itoa(notePage) + `,"from":` + strconv.Itoa(from) + `,"query":{"term":{"owner":"` + o.owner + `"}},"sort":[{"noted":{"order":"asc","unmapped_type":"long"}}],"track_total_hits":false}`
	f, err := search[note](ctx, o.s, index, esapi.SearchRequest{Index: []string{index}, Body: strings.NewReader(body)})
	if err != nil {
		return nil, err
	}
	return f.Hits.Hits, nil
}

// resend sends the deletes of one note. stays says why the server did not take all of them: what it may take later is ErrTransient.
func (o *owed) resend(ctx context.Context, n *note) (stays, err error) {
	// A delete of an external version makes the index that it names, if that was taken away: not for a row that is gone.
	there := make(map[string]bool)
	var body []byte
	var indexes []string // of the items
	for lines := []byte(n.Source.Deletes); len(lines) > 0; {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		lines = rest
		var head struct {
			Delete struct {
				Index string `json:"_index"`
				ID    string `json:"_id"`
			} `json:"delete"`
		}
		if err := json.Unmarshal(line, &head); err != nil || head.Delete.ID == "" || n.Source.Index+head.Delete.Index == "" {
			return configf("document %s of index %s is no note of deletes that can be read: somebody changed it. Delete it, and then verify and repair the index: rows that it told of may be back", n.ID,
				o.s.o.ControlIndex), nil
		}
		index := n.Source.Index
		if index == "" {
			index = head.Delete.Index
		}
		is, known := there[index]
		if !known {
			all, err := o.s.look(ctx, index, "*.settings.index.uuid")
			if err != nil {
				return nil, err
			}
			is = len(all) > 0
			there[index] = is
		}
		if is {
			body, indexes = append(append(body, line...), '\n'), append(indexes, index)
		}
	}
	if len(indexes) == 0 {
		return nil, nil
	}
	answers, err := o.s.bulk(ctx, n.Source.Index, body, len(indexes))
	if err != nil {
		return nil, err
	}
	for i := range answers {
		switch a := &answers[i]; a.verdict() {
		case done, conflict: // a conflict: something newer is there
		case later:
			stays = worst([]error{stays, transientf("index %s does not take deletes that have to be sent again now, so rows that are deleted may be seen: %w", indexes[i], a.why())})
		default:
			stays = worst([]error{stays, configf("index %s refuses deletes that have to be sent again, so rows that are deleted may be seen: %w. Mend the index; or delete document %s of index %s, which notes "+
				"them, and then verify and repair", indexes[i], a.why(), n.ID, o.s.o.ControlIndex)})
		}
	}
	return stays, nil
}

// openControl makes the index of leases and notes. Where that is not allowed somebody else has to have made it, and what is wrong with it shows when
// it is written to.
func (s *Sink) openControl(ctx context.Context) error {
	const properties = `"properties":{"owner":{"type":"keyword"},"noted":{"type":"long"}}`
	status, cause, err := s.createIndex(ctx, s.o.ControlIndex, `{"mappings":{"dynamic":"false",`+properties+`}}`)
	switch {
	case err != nil:
		return err
	case status == http.StatusTooManyRequests || status >= 500:
		return refusedStatus("make index "+s.o.ControlIndex, status, cause)
	case status < 300:
		return nil
	}
	// One that is there may lack the fields that notes are found by.
	_, err = s.putMapping(ctx, "prepare", s.o.ControlIndex, []byte(`{`+properties+`}`))
	if sink.ClassOf(err) == sink.ErrConfig { // it has them in another form, which will do, as a hash is one word
		return nil
	}
	return err
}
