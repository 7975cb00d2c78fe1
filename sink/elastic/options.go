package elastic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/flinksink/flinksink/sink"
)

// Deletes says what becomes of the document of a row that is deleted.
type Deletes uint8

const (
	// Unset is fine for a table that only inserts. For any other it is an ErrConfig that explains the two others.
	Unset Deletes = iota

	// Tombstone writes a document in place of the row's: its version, and the field [DeletedField] with the time. It never goes backwards,
	// whatever becomes of the server, and readers have to leave such documents out: the alias that Options.Alias makes does. [Purge] takes
	// old ones away.
	Tombstone

	// Hard deletes the document. The server remembers its version for index.gc_deletes and only as long as the shard is not restarted
	// or moved. So a lane writes only as long as it knows that its generation was the newest one lease ago (half of gc_deletes, 30 s at most), which it finds out with one
	// small document for each partition in the index Options.ControlIndex; and deletes that an older write may still overtake, which are those of the first
	// two minutes of a generation and after an answer that was lost, are noted there and sent again two minutes later, by whoever then runs the bridge. What
	// is left: where a shard forgets meanwhile, a deleted document can be seen again until then.
	Hard
)

// Options are the settings of a [Sink]. nil and the zero value are the defaults, but for Deletes, where the topic can hold them.
type Options struct {
	// Deletes has to be chosen for a table that can hold deletes.
	Deletes Deletes

	// CreateIndex lets Open make the index when it is missing, with the mapping that [Sink.Mapping] prints. Defaults to false: a missing index is an
	// ErrConfig that shows it. An index that the server makes by itself guesses types from the first document.
	CreateIndex bool

	// Alias is made by Open if it is missing, over the index, without tombstones: what readers should search. One that is there and shows
	// tombstones is an ErrConfig. Defaults to none.
	Alias string

	// Columns renames: a column of the source table to the field that takes it. An empty name leaves the column out. Defaults to equal names.
	Columns map[string]string

	// HashIDs makes every _id the SHA-256 of the key. Defaults to ids that can be read, see [Sink.ID].
	HashIDs bool

	// IDPrefix begins every _id: the version of a pipeline whose documents shall stand beside those of the one before. At most 64 bytes.
	IDPrefix string

	// Routing names a column of the key whose text routes the document. A column outside the key could change, and the row would lie on two shards.
	Routing string

	// Pipeline names an ingest pipeline. It must not change _id, _version, _routing or the field of Meta.
	Pipeline string

	// DataStream says that the target is a data stream: only inserts, with op_type create, and the stream's @timestamp has to be one of the
	// fields. The server compares ids within the index that the stream writes to at the time: changes that are read again after a
	// rollover came between are there twice. An index, or one made from a column ("logs-{at}"), has no such gap.
	DataStream bool

	// Meta is the field that holds where a document came from: an object whose member at is topic/partition/offset/incarnation/topic id. It tells a document that somebody else wrote, or
	// another topic, from a newer one of our own, and is what verification compares. Defaults to "flinksink".
	Meta string

	// ControlIndex is where Hard keeps a document for each partition, and deletes that are to be sent again. It is made when it is missing.
	// Defaults to "flinksink".
	ControlIndex string

	// DeadLetters is the index that takes dead letters. It is made with the first letter. Defaults to "flinksink-dead-letters".
	DeadLetters string

	// Refresh makes the checkpoint's documents visible to searches at its end, by one _refresh. Defaults to false: the index's own
	// refresh_interval (1 s) does.
	Refresh bool

	// BulkBytes and BulkActions bound one bulk request. Default to 4 MiB and 5,000. A request is sent once it has reached
	// either, so it may be larger by one document, and sooner while the server has nothing to do for the lane; what the server finds too large (413)
	// is sent in halves.
	BulkBytes, BulkActions int

	// InFlight is how many bulk requests a lane has under way at once; changes of one document always follow one another. Memory is up to
	// twice BulkBytes for each. Defaults to 2.
	InFlight int

	// RequestTimeout bounds one request. Defaults to 1 minute.
	RequestTimeout time.Duration

	// Patience is how long a request that the server cannot take now (429, 503, a connection that fails) is sent again by the lane itself, with
	// pauses from 100 ms to 5 s, before the checkpoint is given up as ErrTransient, to be done again. [Sink.Purge] and repairs, which nobody does again, have as much
	// for each request. Defaults to 1 minute.
	Patience time.Duration

	// Owing is told when deletes that Hard has to send again could not be: an index is closed or read-only, the server is away, a privilege is gone. A row that is deleted may be
	// seen until then. It is told of each try, every 30 s, and told nil when all were sent. What the server refuses for good ends the lane as an ErrConfig besides. It is called by
	// lanes, also while no change comes, and must not block. Defaults to nobody.
	Owing func(err error)

	// Pressed is told when the server takes nothing: five requests of a lane in a row failed as a whole (429, a status of 500 or more, no answer, each document
	// refused for now). The lane then sends one request at a time, each half as large, with pauses, until something is taken; then Pressed is told nil. It is
	// called by lanes, at once, and must not block. Defaults to nobody.
	Pressed func(err error)
}

const (
	defaultMeta         = "flinksink"
	defaultControlIndex = "flinksink"
	defaultDeadLetters  = "flinksink-dead-letters"
	defaultBulkBytes    = 4 << 20
	defaultBulkActions  = 5000
	defaultInFlight     = 2
	defaultTimeout      = time.Minute
	defaultPatience     = time.Minute

	maxPrefix = 64
)

// DeletedField is the field of a tombstone that holds when it was written.
const DeletedField = "flinksink_deleted"

// New returns a sink that writes into an index, or into an alias of one or a data stream of that name. "" is the source table's name.
//
// The name can be made from each row: "orders-{country}-{at|yyyy-MM}" has the text of a column, in small letters, and a DATE or TIMESTAMP
// in UTC, by default yyyy-MM-dd. A row whose name changes with an update moves: it is deleted under the old name, with the version of the update. That needs
// columns of the key only, whose row never moves, or a format that tells the row as it was before. A row with NULL there, or with
// a sign that no name may have, is an ErrRejected. Such indexes are looked at, and made, when the first row for one comes.
//
// client is a
// *elasticsearch.Client of go-elasticsearch v8 or anything that performs its requests; a client for a server of version 9 needs
// EnableCompatibilityMode only for its typed calls, which are not used here.
//
// All mistakes are reported together, as one ErrConfig. The server is first asked by Open.
func New(client esapi.Transport, index string, o *Options) (*Sink, error) {
	s := &Sink{client: client, index: index}
	if o != nil {
		s.o = *o
		s.o.Columns = maps.Clone(o.Columns)
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if client == nil {
		errs = append(errs, errors.New("client is nil: make one with elasticsearch.NewClient"))
	}
	if index != "" {
		if why := badTemplate(index); why != "" {
			bad("index %q %s", index, why)
		}
	}
	byDefault(&s.o.Meta, defaultMeta)
	byDefault(&s.o.ControlIndex, defaultControlIndex)
	byDefault(&s.o.DeadLetters, defaultDeadLetters)
	for _, n := range []struct{ option, name string }{{"Alias", s.o.Alias}, {"ControlIndex", s.o.ControlIndex}, {"DeadLetters", s.o.DeadLetters}} {
		if n.name != "" {
			if why := badIndex(n.name); why != "" {
				bad("Options.%s %q %s", n.option, n.name, why)
			}
		}
	}
	if why := badField(s.o.Meta); why != "" {
		bad("Options.Meta %q %s", s.o.Meta, why)
	}
	for _, from := range slices.Sorted(maps.Keys(s.o.Columns)) {
		if to := s.o.Columns[from]; to != "" {
			if why := badField(to); why != "" {
				bad("Options.Columns[%s] %q %s", from, to, why)
			}
		}
	}
	if len(s.o.IDPrefix) > maxPrefix {
		bad("Options.IDPrefix has %d bytes: at most %d leave room for the key", len(s.o.IDPrefix), maxPrefix)
	}
	if s.o.Deletes > Hard {
		bad("Options.Deletes is %d: choose Tombstone or Hard", s.o.Deletes)
	}
	if s.o.DataStream && s.o.Deletes != Unset {
		bad("Options.DataStream takes inserts only: leave Options.Deletes unset, or write into an index")
	}
	if s.o.DataStream && strings.Contains(index, "{") {
		bad("Options.DataStream needs the name of one data stream: it parts its documents by time itself")
	}
	positive(&s.o.BulkBytes, defaultBulkBytes, "BulkBytes", bad)
	positive(&s.o.BulkActions, defaultBulkActions, "BulkActions", bad)
	positive(&s.o.InFlight, defaultInFlight, "InFlight", bad)
	positive(&s.o.RequestTimeout, defaultTimeout, "RequestTimeout", bad)
	positive(&s.o.Patience, defaultPatience, "Patience", bad)
	if len(errs) > 0 {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	return s, nil
}

func byDefault(s *string, d string) {
	if *s == "" {
		*s = d
	}
}

func positive[T int | time.Duration](v *T, byDefault T, name string, bad func(string, ...any)) {
	switch {
	case *v == 0:
		*v = byDefault
	case *v < 0:
		bad("Options.%s is %v: it has to be positive", name, *v)
	}
}

// badIndex says what is wrong with the name of an index, or "". The rules are those of the create index API.
func badIndex(name string) string {
	switch {
	case len(name) > 255:
		return "is longer than 255 bytes"
	case name != strings.ToLower(name):
		return "has upper case letters, which Elasticsearch refuses"
	case strings.ContainsAny(name, "\\/*?\"<>| ,#:\x00"):
		return `holds one of \ / * ? " < > | , # : or a space, which Elasticsearch refuses`
	case strings.HasPrefix(name, "-"), strings.HasPrefix(name, "_"), strings.HasPrefix(name, "+"), name == ".", name == "..":
		return "begins as Elasticsearch refuses: not with - _ + and not . or .."
	}
	return ""
}

// badField says what is wrong with the name of a field, or "".
func badField(name string) string {
	switch name {
	case "":
		return "is empty"
	case "_id", "_index", "_source", "_routing", "_type", "_version", "_seq_no", "_primary_term", "_field_names", "_ignored", "_meta", "_size", "_doc_count",
		"_tier", "_nested_path", "_data_stream_timestamp", "_uid", "_all", "_parent", "_ttl", "_timestamp", "_feature":
		return "is a field of Elasticsearch's own: rename the column with Options.Columns"
	case DeletedField:
		return "marks tombstones: rename the column with Options.Columns"
	}
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return "has an empty part between dots: rename the column with Options.Columns"
	}
	return ""
}
