package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 256 << 20

// deliver sends a bulk until each of its items is settled: done, superseded by something newer, or refused for good. What the server cannot take
// now is sent again, those items only, with pauses. Sending twice is harmless, since the versions are the same, so an answer that was
// lost is no different from one that says 503.
func (p *pipe) deliver(ctx context.Context, b *bulk) error {
	d := &delivery{p: p, plan: b.plan, patience: p.c.s.patience(p.c.firstPause)}
	owes := p.c.owed.due()
	d.send(ctx, b.buf, b.items)
	if d.err != nil {
		return d.err
	}
	if owes || p.c.owed.due() { // an answer to a part of b may have been lost
		if d.owe(ctx, b); d.err != nil {
			return d.err
		}
	}
	if len(d.refused) > 0 {
		first := d.refused[0]
		return &sink.Error{Class: sink.ErrRejected, Position: position(first.Partition, first.Offset), Rejected: d.refused, Err: first.Reason}
	}
	return nil
}

// owe notes the deletes of b, see owed.
func (d *delivery) owe(ctx context.Context, b *bulk) {
	for _, note := range d.p.c.owed.notes(b) {
		for d.err == nil {
			err := d.p.c.owed.write(ctx, note)
			if err == nil {
				break
			}
			if sink.ClassOf(err) != sink.ErrTransient {
				d.err = err
				return
			}
			d.pause(ctx, err)
		}
	}
}

func position(p changelog.Partition, offset int64) *changelog.Position {
	return &changelog.Position{Partition: p, Offset: offset, LeaderEpoch: -1}
}

// delivery is one bulk on its way.
type delivery struct {
	patience
	p       *pipe
	plan    *plan
	refused []sink.Rejection
	err     error // ends it
}

// send sends items of buf, which lie there one after another.
func (d *delivery) send(ctx context.Context, buf []byte, items []item) {
	for len(items) > 0 && d.err == nil {
		n, leave := d.enter(ctx, len(items))
		if d.err != nil {
			return
		}
		now, rest := items[:n], items[n:]
		answers, whole := d.request(ctx, body(buf, now), n)
		if whole != nil && whole.class == sink.ErrTransient {
			d.p.c.breaker.failed(n, whole.why)
			d.pause(ctx, whole.why)
			leave()
			continue
		}
		if whole != nil { // it took the request, and says something about it
			d.p.c.breaker.answered()
			leave()
			switch {
			case !whole.halve:
				d.err = &sink.Error{Class: whole.class, Err: whole.why}
				return
			case n == 1:
				d.refused = append(d.refused, now[0].rejection(whole.why))
			default:
				// The server takes all or nothing of such a request, so the one that it is about is looked for.
				d.send(ctx, buf, now[:n/2])
				d.send(ctx, buf, now[n/2:])
			}
			items = rest
			continue
		}
		again, why := d.settle(ctx, buf, now, answers)
		switch {
		case len(again) == n:
			d.p.c.breaker.failed(n, why)
		default:
			d.tries = 0
			d.p.c.breaker.answered()
		}
		if len(again) > 0 && d.err == nil {
			d.pause(ctx, why)
			items = append(again, rest...)
		} else {
			items = rest
		}
		leave()
	}
}

// body is what items of buf are sent as: buf itself where they are all of it.
func body(buf []byte, items []item) []byte {
	n := 0
	for i := range items {
		n += items[i].end - items[i].start
	}
	if n == len(buf) {
		return buf
	}
	body := make([]byte, 0, n)
	for i := range items {
		body = append(body, buf[items[i].start:items[i].end]...)
	}
	return body
}

// settle goes through the answers and returns the items that have to go again, and why.
func (d *delivery) settle(ctx context.Context, buf []byte, items []item, answers []answer) (again []item, why error) {
	var conflicts []int
	for i := range answers {
		switch a := &answers[i]; a.verdict() {
		case done:
		case conflict:
			conflicts = append(conflicts, i)
		case later:
			again, why = append(again, items[i]), a.why()
			if a.Status >= 500 { // as of a shard whose node did not answer the one that took the request
				d.p.c.owed.lost()
			}
		case refused:
			d.refused = append(d.refused, items[i].rejection(a.why()))
		case wrong:
			d.err = configf("%w: %s", a.why(), d.plan.index)
			return nil, nil
		}
	}
	if len(conflicts) > 0 {
		if err := d.resolve(ctx, buf, items, conflicts); err != nil {
			d.err = err
			return nil, nil
		}
	}
	return again, why
}

// pause waits before the next try, or ends the delivery.
func (d *delivery) pause(ctx context.Context, why error) {
	if err := d.patience.pause(ctx); errors.Is(err, errImpatient) {
		d.giveUp(why)
	} else {
		d.err = err
	}
}

// giveUp ends the delivery, and with it the checkpoint, which is then done again.
func (d *delivery) giveUp(why error) {
	alone := ""
	if n := d.p.c.breaker.broken(); n > 0 {
		alone = fmt.Sprintf(" (%d requests in a row, the last ones alone and smaller)", n)
	}
	d.err = transientf("the server could not take documents for index %s for %v%s: %w", d.plan.index, d.p.c.s.o.Patience, alone, why)
}

// failure is what became of a request as a whole.
type failure struct {
	class error
	halve bool // one of its items is to blame
	why   error
}

// request sends one body and reads the answers of its n items.
func (d *delivery) request(ctx context.Context, body []byte, n int) ([]answer, *failure) {
	if l := d.p.c.lease; l != nil {
		if err := l.renew(ctx); err != nil {
			return nil, &failure{class: sink.ClassOf(err), why: err}
		}
	}
	o := &d.p.c.s.o
	began := time.Now()
	r := esapi.BulkRequest{Index: d.plan.path(), Body: bytes.NewReader(body), Pipeline: o.Pipeline, FilterPath: answerPath}
	limit := o.RequestTimeout
	if l := d.p.c.lease; l != nil {
		// Neither we nor the server, which waits for a shard that is not there, keep a request alive for longer than the lease.
		limit = min(limit, l.longest())
		r.Timeout = limit
	}
	ctx, cancel := context.WithTimeout(d.p.c.owed.watch(ctx), limit)
	defer cancel()
	res, err := r.Do(ctx, d.p.c.s.client)
	if err != nil {
		d.left -= time.Since(began)
		d.p.c.owed.lost()
		return nil, &failure{class: sink.ClassOf(lost(err)), why: hide(err)}
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		d.left -= time.Since(began)
		if res.StatusCode >= 500 { // of a proxy, perhaps, which gave up waiting
			d.p.c.owed.lost()
		}
		return nil, wholeFailure(res)
	}
	answers, err := d.p.answers.read(io.LimitReader(res.Body, maxAnswer), n)
	if err != nil {
		d.left -= time.Since(began)
		d.p.c.owed.lost()
		return nil, &failure{class: sink.ErrTransient, why: fmt.Errorf("the answer to a bulk request cannot be read: %w", err)}
	}
	return answers, nil
}

// hide keeps an error of the client without the address's user information.
func hide(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within Options.RequestTimeout: %w", context.DeadlineExceeded)
	}
	return fmt.Errorf("the server cannot be reached: %w", withoutURL(err))
}

// lost is an error of the client, which as a rule means that the server cannot be reached. The client of go-elasticsearch also looks whether an answer
// comes from Elasticsearch, and says so in a text of no type: that will not change by itself.
func lost(err error) error {
	if strings.Contains(err.Error(), "server is not Elasticsearch") {
		return configf("the client takes the server for another product than Elasticsearch: does its address lead to Elasticsearch? An elastictransport.Client does not ask")
	}
	return transientf("%w", hide(err))
}

// wholeFailure reads an answer that is about the request as a whole.
func wholeFailure(res *esapi.Response) *failure {
	cause := readCause(res.Body)
	why := fmt.Errorf("status %d%s", res.StatusCode, cause.text())
	switch res.StatusCode {
	case http.StatusRequestEntityTooLarge:
		return &failure{class: sink.ErrRejected, halve: true, why: fmt.Errorf("the document is larger than the server takes (http.max_content_length): status 413")}
	case http.StatusBadRequest:
		// One bad item can make the server refuse its neighbours.
		return &failure{class: sink.ErrRejected, halve: true, why: why}
	case http.StatusUnauthorized:
		return &failure{class: sink.ErrConfig, why: fmt.Errorf("%w: the client's credentials are not accepted", why)}
	case http.StatusForbidden:
		if cause.Type == blockException {
			return &failure{class: sink.ErrTransient, why: why}
		}
		return &failure{class: sink.ErrConfig, why: fmt.Errorf("%w: the client needs the privilege to write into the index", why)}
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		if cause.Type == indexNotFound {
			return &failure{class: sink.ErrTransient, why: why}
		}
		return &failure{class: sink.ErrConfig, why: fmt.Errorf("%w: does the address of the client lead to Elasticsearch?", why)}
	}
	return &failure{class: sink.ErrTransient, why: why}
}
