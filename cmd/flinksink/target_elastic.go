package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// indexFlags say how rows are written into an index.
type indexFlags struct {
	deletes string
	alias   string
	refresh bool
	prefix  string
	hash    bool
	routing string
	columns map[string]string
}

func (f *indexFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.deletes, "index-deletes", "", "index: what stays of a deleted row: `HOW` is tombstone (a small document, which readers leave out and nothing older passes) or hard (nothing; "+
		"leaves a window); has to be chosen for a table that can hold deletes (of verify and repair: tombstone)")
	fs.StringVar(&f.alias, "index-alias", "", "index: `NAME` of an alias without tombstones, for searches, which is made if it is missing")
	fs.BoolVar(&f.refresh, "index-refresh", false, "index: make each checkpoint visible to searches at its end")
	fs.StringVar(&f.prefix, "index-id-prefix", "", "index: `TEXT` that begins every _id")
	fs.BoolVar(&f.hash, "index-hash-ids", false, "index: every _id is a hash")
	fs.StringVar(&f.routing, "index-routing", "", "index: Flink `COLUMN` that routes documents")
	fs.StringToStringVar(&f.columns, "index-field", nil, "index: `COLUMN=FIELD,...` where the names differ; an empty FIELD is left out")
	fs.Lookup("index-field").DefValue = ""
}

// indexTarget is an index, or all that a template of their name makes.
type indexTarget struct {
	place
	f     *targetFlags
	sink  *elastic.Sink
	index string

	client elastictransport.Interface
	host   string
}

func (t *indexTarget) at() place { return t.place }

func (t *indexTarget) into(table *ddl.Table) string {
	if t.index == "" {
		return "index " + table.Name()
	}
	return "index " + t.index
}

func (t *indexTarget) own() bool { return false }

func (t *indexTarget) keeper() (sink.Store, error) { return nil, nil }

// The names of what Elastic's own programs read.
const (
	elasticUser     = "ELASTICSEARCH_USERNAME"
	elasticPassword = "ELASTICSEARCH_PASSWORD"
	elasticKey      = "ELASTICSEARCH_API_KEY"
	elasticCA       = "ELASTICSEARCH_CA"
)

// values implements target.
func (t *indexTarget) values() error {
	switch d := t.f.index.deletes; d {
	case "", "tombstone", "hard":
		return nil
	default:
		return usage(fmt.Errorf("--index-deletes %q: it is tombstone or hard", d))
	}
}

// build implements target.
func (t *indexTarget) build(c *call, r *reading) error {
	f := &t.f.index
	client, host, index, err := c.indexClient("--to", t.url)
	if err != nil {
		return err
	}
	pressed := func(err error) {
		switch {
		case c.logger == nil:
		case err != nil:
			c.logger.Warn("flinksink: Elasticsearch takes nothing; it is tried on", "error", flags.Replace(err.Error()))
		default:
			c.logger.Warn("flinksink: Elasticsearch takes documents again")
		}
	}
	owing := func(err error) {
		switch {
		case c.logger == nil:
		case err != nil:
			c.logger.Warn("flinksink: deletes that have to be sent to Elasticsearch again could not be; rows that are deleted may be seen", "error", flags.Replace(err.Error()))
		default:
			c.logger.Warn("flinksink: all deletes that had to be sent again were")
		}
	}
	o := &elastic.Options{Pressed: pressed, Owing: owing, CreateIndex: t.f.create, Alias: f.alias, Refresh: f.refresh, IDPrefix: f.prefix, HashIDs: f.hash, Routing: f.routing, Columns: f.columns}
	switch f.deletes {
	case "tombstone":
		o.Deletes = elastic.Tombstone
	case "hard":
		o.Deletes = elastic.Hard
	}
	if strings.ContainsAny(index, "*,") {
		return config("--to names the index %q, which is several: a name that is made of rows is written with columns in braces, as in orders-{country}", index)
	}
	if t.sink, err = elastic.New(client, index, o); err != nil {
		return err
	}
	t.index, t.client, t.host = index, client, host
	if r.writes && r.in.Decoder != nil {
		lane, err := t.sink.Lane(context.Background(), sink.Lane{Bridge: r.bridge, Sink: "elastic", Tables: []*changelog.Table{r.in.Decoder.Table()}})
		if err != nil {
			return err
		}
		return lane.Close(context.Background())
	}
	return nil
}

// open implements target. The server is asked for its name, so that one that is away is told at once.
func (t *indexTarget) open(ctx context.Context, c *call, _ *reading) (sink.Sink, error) {
	return t.sink, c.greet(ctx, "--to", t.client, t.host)
}

// indexClient makes the client for a URL that flag names, which leads to an index, or with an empty path to none. It reaches no server.
func (c *call) indexClient(flag, to string) (client *elastictransport.Client, host, index string, err error) {
	for _, name := range []string{elasticPassword, elasticKey} {
		c.secret(os.Getenv(name))
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil, "", "", config("%s takes http://host:9200/index or https://...; a password in it has to be percent-encoded", flag)
	}
	index = strings.Trim(u.Path, "/")
	if strings.Contains(index, "/") || u.RawQuery != "" || u.Fragment != "" {
		return nil, "", "", config("%s has more than the name of an index behind the host: http://host:9200/index", flag)
	}
	u.Path, u.RawPath = "", ""
	settings := elastictransport.Config{URLs: []*url.URL{u}, APIKey: os.Getenv(elasticKey)}
	if u.User == nil && settings.APIKey == "" {
		settings.Username, settings.Password = os.Getenv(elasticUser), os.Getenv(elasticPassword)
	}
	if path := os.Getenv(elasticCA); path != "" {
		if settings.CACert, err = os.ReadFile(path); err != nil {
			return nil, "", "", unreadable(elasticCA+" names "+path, err)
		}
	}
	if client, err = elastictransport.New(settings); err != nil {
		return nil, "", "", config("%s: the client cannot be made: check the address, and the certificate in %s", flag, elasticCA)
	}
	return client, u.Host, index, nil
}

// greet asks a server who it is, for c.patience at most.
func (c *call) greet(ctx context.Context, flag string, client elastictransport.Interface, host string) error {
	ask, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		req, err := http.NewRequestWithContext(ask, http.MethodGet, "/", nil)
		if err != nil {
			return config("%s: %w", flag, errors.New("the address makes no request"))
		}
		res, err := client.Perform(req)
		if err == nil {
			other := somethingElse(res)
			res.Body.Close()
			switch {
			case other:
				return config("%s: what answers at %s is not Elasticsearch (status %d, %s): check host and port", flag, host, res.StatusCode, cmp.Or(res.Header.Get("Content-Type"), "of no content type"))
			case res.StatusCode == http.StatusUnauthorized:
				return config("%s: the server at %s does not know this user (status 401): set %s and %s, or %s", flag, host, elasticUser, elasticPassword, elasticKey)
			case res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests:
				return nil // who may write need not be allowed to ask for the name
			}
		}
		select {
		case <-time.After(wait):
		case <-ask.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			why := "it is not ready"
			if err != nil {
				why = withoutURL(err)
			}
			return config("%s: no answer from Elasticsearch at %s within %s: %s; check host, port, http or https, and that the server runs", flag, host, c.patience, why)
		}
	}
}

// somethingElse reports that an answer to GET / is none of Elasticsearch or OpenSearch, which tell their version. One that is refused tells nothing, unless it is
// in a form that they do not have.
func somethingElse(res *http.Response) bool {
	switch {
	case res.StatusCode == http.StatusOK:
		var is struct {
			Version struct {
				Number string `json:"number"`
			} `json:"version"`
		}
		return json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&is) != nil || is.Version.Number == ""
	case res.StatusCode >= 400 && res.StatusCode < 500:
		return strings.Contains(res.Header.Get("Content-Type"), "xml") // as an object store's
	}
	return false
}

// withoutURL is what an error of a request says beside the address, which may hold a password.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

func (t *indexTarget) ready(context.Context, *reading, string, string) error { return nil }

// check implements target.
func (t *indexTarget) check(ctx context.Context, k *checkup, s *subject, l sink.Lane, _ string) bool {
	if s.dec == nil {
		k.skip("index", "what would be written into it is not known")
		return false
	}
	found, err := t.sink.Check(ctx, l)
	if k.bad("index", err) {
		return false
	}
	for _, text := range found {
		k.ok("index", "%s", text)
	}
	return true
}

func (t *indexTarget) close() {}
