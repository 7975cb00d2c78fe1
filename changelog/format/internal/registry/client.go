package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
)

const (
	defaultTimeout = 10 * time.Second
	maxAnswer      = 16 << 20 // bytes of an answer of the registry
	maxReferences  = 256      // schemas that one schema refers to, and those that they do
)

// Extra are the settings of a format that are not Flink's.
type Extra struct {
	SourceTypes bool // the types of Kafka Connect and Debezium are read as what they are
	// Client makes the requests, in place of one that follows the options ssl.*.
	Client *http.Client
	// Timeout bounds a request and its answer; it is ten seconds where it is 0.
	Timeout time.Duration
}

// client asks one registry. Its errors hold no secret: the addresses that they name have neither user nor password.
type client struct {
	format  string
	where   string
	sr      *sr.Client
	timeout time.Duration
}

func newClient(format string, s settings, h Extra) (*client, error) {
	var base http.Client
	switch {
	case h.Client != nil && s.tls != nil:
		return nil, fmt.Errorf("%s: options 'ssl.…' have no effect beside an HTTP client of your own; drop one of them", format)
	case h.Client != nil:
		base = *h.Client
	case s.tls != nil:
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: s.tls,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
		base.Transport = transport
	}
	base.Transport = bounded{base.Transport}
	opts := []sr.ClientOpt{sr.URLs(s.urls...), sr.HTTPClient(&base), sr.UserAgent("flinksink")}
	switch {
	case s.token != "":
		opts = append(opts, sr.BearerToken(s.token))
	case s.user != "":
		opts = append(opts, sr.BasicAuth(s.user, s.password))
	}
	cl, err := sr.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", format, err)
	}
	c := &client{format: format, where: strings.Join(s.urls, ", "), sr: cl, timeout: h.Timeout}
	if c.timeout <= 0 {
		c.timeout = defaultTimeout
	}
	return c, nil
}

// bounded cuts off answers that no registry gives.
type bounded struct{ next http.RoundTripper }

func (t bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// schema fetches and parses the schema of an id, with those that it refers to.
func (c *client) schema(id int) (*schema, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	text, err := c.sr.SchemaByID(ctx, id)
	if err != nil {
		return nil, c.failed(fmt.Sprintf("schema %d cannot be fetched", id), err)
	}
	if text.Type != sr.TypeAvro {
		return nil, &changelog.DataError{Class: changelog.SchemaMismatch, Reason: fmt.Sprintf("the message was written with schema %d, which is one of %s and not of Avro", id, text.Type)}
	}
	p := parser{client: c, seen: map[string]bool{}, types: map[string]*avro.SchemaNode{}}
	if err := p.references(ctx, text.References); err != nil {
		return nil, c.failed(fmt.Sprintf("what schema %d refers to cannot be fetched", id), err)
	}
	s, err := p.parse(text.Schema)
	if err != nil {
		return nil, &changelog.DataError{Class: changelog.SchemaMismatch, Reason: fmt.Sprintf("the message was written with schema %d, which cannot be parsed", id), Err: errors.New(short(err.Error()))}
	}
	return s, nil
}

// register registers the schema under the subject and returns its id.
func (c *client) register(subject, text string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	id, err := c.sr.RegisterSchema(ctx, subject, sr.Schema{Schema: text}, -1, -1)
	if err != nil {
		return 0, c.failed("the table's schema cannot be registered under subject "+subject, err)
	}
	return id, nil
}

// Codes of the registry's errors.
const (
	subjectNotFound = 40401
	versionNotFound = 40402
	schemaNotFound  = 40403
)

// failed tells what the message is to blame for, that the registry does not know its schema, from all else: an outage, credentials that are not
// taken, an address that is none of a registry, a schema that the subject's rules of compatibility refuse. That is no data error,
// and the same call may succeed later.
func (c *client) failed(what string, err error) error {
	var data *changelog.DataError
	if errors.As(err, &data) {
		return data
	}
	var answer *sr.ResponseError
	if errors.As(err, &answer) {
		said := fmt.Sprintf("it answered %d", answer.StatusCode)
		if answer.ErrorCode != 0 {
			said += fmt.Sprintf(", code %d: %s", answer.ErrorCode, short(answer.Message))
		}
		switch answer.ErrorCode {
		case subjectNotFound, versionNotFound, schemaNotFound:
			return &changelog.DataError{Class: changelog.SchemaMismatch, Reason: fmt.Sprintf("%s from the schema registry at %s: %s", what, c.where, said)}
		}
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			said += "; set 'basic-auth.user-info' or 'bearer-auth.token', or what they are allowed there"
		case http.StatusNotFound:
			said += "; is option 'url' the address of a schema registry?"
		case http.StatusConflict:
			said += "; the subject has schemas that this one is not compatible with: change the table, or the subject's compatibility"
		}
		return c.unavailable(what, errors.New(said))
	}
	return c.unavailable(what, cause(err))
}

func (c *client) unavailable(what string, err error) error {
	return &changelog.UnavailableError{Reason: fmt.Sprintf("%s: %s, schema registry at %s", c.format, what, c.where), Err: err}
}

// cause leaves out of an error what may hold more than is to be shown: addresses to which an answer led, and the answer itself.
func cause(err error) error {
	var request *url.Error
	var network *net.OpError
	var syntax *json.SyntaxError
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("no answer in time")
	case errors.As(err, &network):
		return network
	case errors.As(err, &request):
		return request.Err
	case errors.As(err, &tooLong):
		return errors.New("the answer is longer than any schema")
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the answer is none of a schema registry; is option 'url' its address?")
	}
	return errors.New("no answer that could be read")
}

// short makes one short line of what the registry says.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300]
		for len(s) > 0 && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return s
}
