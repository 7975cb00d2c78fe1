package main

import (
	"net/url"
	"strings"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// indexFlags say how a bridge that is a Go program writes into an index.
type indexFlags struct {
	deletes string
	prefix  string
	hash    bool
	routing string
	columns map[string]string
}

func (f *indexFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.deletes, "index-deletes", "tombstone", "index: what the bridge leaves of a deleted row, tombstone or `hard` (nothing)")
	fs.StringVar(&f.prefix, "index-id-prefix", "", "index: `TEXT` that begins every _id")
	fs.BoolVar(&f.hash, "index-hash-ids", false, "index: every _id is a hash")
	fs.StringVar(&f.routing, "index-routing", "", "index: Flink `COLUMN` that routes documents")
	fs.StringToStringVar(&f.columns, "index-field", nil, "index: `COLUMN=FIELD,...` where the names differ; an empty FIELD is left out")
}

// isIndex reports that --to names an Elasticsearch.
func isIndex(to string) bool {
	return strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://")
}

// openIndex reads http://user:password@host:9200/index. The server is asked later.
func (c *call) openIndex(to string, f *indexFlags) (sink.Verifiable, error) {
	c.secret(to)
	for _, p := range passwords(to) {
		c.secret(p)
	}
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil, config("--to takes http://host:9200/index or https://...; a password in it has to be percent-encoded")
	}
	index := strings.Trim(u.Path, "/")
	if strings.Contains(index, "/") || u.RawQuery != "" || u.Fragment != "" {
		return nil, config("--to has more than the name of an index behind the host: http://host:9200/index")
	}
	o := &elastic.Options{IDPrefix: f.prefix, HashIDs: f.hash, Routing: f.routing, Columns: f.columns}
	switch f.deletes {
	case "tombstone":
		o.Deletes = elastic.Tombstone
	case "hard":
		o.Deletes = elastic.Hard
	default:
		return nil, config("--index-deletes %q: it is tombstone or hard", f.deletes)
	}
	u.Path = ""
	client, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{u}})
	if err != nil {
		return nil, config("--to: the client cannot be made")
	}
	return elastic.New(client, index, o)
}
