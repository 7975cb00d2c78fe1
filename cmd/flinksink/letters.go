package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink/postgres"
)

// lettersFlags are those of flinksink letters.
type lettersFlags struct {
	positionFlags
	limit  int
	sink   string
	asJSON bool
}

func (c *call) letters() *cobra.Command {
	f := &lettersFlags{}
	cmd := &cobra.Command{
		Use:   "letters --store URL",
		Short: "Show the messages that bridges set aside (dead letters)",
		Long: `letters shows the messages that run --on-data dead-letter set aside, the newest first: where each is in its topic, the class (data: it
cannot be decoded; rejected: Postgres refuses one of its changes), the number of the change in the message and the column where they are
known, and what is wrong. Keys and values are not shown, for they may be anybody's data: --json prints them, with headers, in base64.

Where rows go to Kafka, S3 or Elasticsearch the letters are there too: in a topic, below the folder of the target, or in the index
flinksink-dead-letters (https://host:9200 finds it; a name behind the host is that of another index).

It changes nothing. Letters stay until somebody deletes them, in Postgres by
DELETE FROM flinksink.dead_letter WHERE bridge = '...' AND number <= N;`,
		Example: `  flinksink letters --store postgres://app@db/shop --bridge orders
  flinksink letters --store postgres://app@db/shop --bridge orders --limit 0 --json | jq -r '.letters[].value | @base64d'`,
		Args: noArgs,
	}
	f.add(cmd, "`NAME` of one bridge (default: all)")
	cmd.Flags().StringVar(&f.sink, "sink", bridge.DefaultSinkName, "s3: declared `NAME` of the sink within the bridge (s3 where run had several targets)")
	cmd.Flags().Lookup("store").Usage = "`URL` of what keeps the letters, which is the target: the database, the topic of --kafka-dead-letters (kafka://host:9092/topic), the folder (s3://bucket/prefix) or the server (https://host:9200) (required)"
	cmd.Flags().IntVar(&f.limit, "limit", 20, "show at most this `NUMBER` of letters; 0: all")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object, with keys, values and headers in base64")
	cmd.RunE = c.runE(func(cmd *cobra.Command) error {
		if err := within("--limit", int64(f.limit), 0, math.MaxInt32); err != nil {
			return err
		}
		all, err := c.readLetters(cmd, f)
		if err != nil {
			return err
		}
		if f.asJSON {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(map[string]any{"letters": jsonLetters(all)})
		}
		return writeLetters(cmd.OutOrStdout(), all, f.limit)
	})
	return cmd
}

// readLetters reads the newest letters, newest first.
func (c *call) readLetters(cmd *cobra.Command, f *lettersFlags) (all []postgres.StoredLetter, err error) {
	p, err := c.placeOf("--store", f.keep.url, letterKinds()...)
	if err != nil {
		return nil, err
	}
	if err := flagsOfOthers(cmd.Flags(), []place{p}); err != nil {
		return nil, err
	}
	switch p.kind {
	case atKafka:
		return c.lettersInTopic(cmd.Context(), p, f)
	case atS3:
		return c.lettersInBucket(cmd.Context(), p, f)
	case atIndex:
		return c.lettersInIndex(cmd.Context(), p, f)
	}
	err = c.with(cmd, &f.positionFlags, func(st *keeper) error {
		if f.bridge != "" {
			if _, err := readBridges(cmd, st, f.bridge); err != nil { // a misspelt name is no bridge without letters
				return err
			}
		}
		all, err = st.pg.DeadLetters(cmd.Context(), f.bridge, f.limit)
		return err
	})
	return all, err
}

func writeLetters(w io.Writer, all []postgres.StoredLetter, limit int) error {
	var b strings.Builder
	for _, l := range all {
		switch {
		case l.Bridge != "" && l.Number != 0: // in a table
			fmt.Fprintf(&b, "%d  %s  bridge %q  ", l.Number, stamp(l.Written), l.Bridge)
		case l.Bridge != "" && !l.Written.IsZero(): // in an index
			fmt.Fprintf(&b, "%s  bridge %q  ", stamp(l.Written), l.Bridge)
		case !l.Written.IsZero(): // in a topic
			fmt.Fprintf(&b, "%s  ", stamp(l.Written))
		}
		fmt.Fprintf(&b, "%s:%d:%d", l.Topic, l.Partition.Partition, l.Offset)
		if l.Index >= 0 {
			fmt.Fprintf(&b, "  change %d", l.Index)
		}
		if l.Column != "" {
			fmt.Fprintf(&b, "  column %q", l.Column)
		}
		fmt.Fprintf(&b, "  %s: %s\n", l.Class, oneLine(l.Error))
	}
	switch {
	case len(all) == 0:
		b.WriteString("no dead letters\n")
	case limit > 0 && len(all) == limit:
		fmt.Fprintf(&b, "the newest %d; there may be older ones (--limit)\n", limit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// What letters --json prints. Names are part of what the program promises; fields may be added. Bytes are in base64, null is "none".
type (
	jsonLetter struct {
		Number     int64        `json:"number"`
		Bridge     string       `json:"bridge"`
		Generation int64        `json:"generation"`
		Checkpoint int64        `json:"checkpoint"`
		Written    time.Time    `json:"written"`
		Topic      string       `json:"topic"`
		Partition  int32        `json:"partition"`
		Offset     int64        `json:"offset"`
		Index      *int32       `json:"index"` // of the change in the message; null: the message as a whole
		Column     string       `json:"column"`
		Class      string       `json:"class"`
		Error      string       `json:"error"`
		Changes    int          `json:"changes"`
		Timestamp  *time.Time   `json:"timestamp"`
		Key        []byte       `json:"key"`
		Value      []byte       `json:"value"`
		Headers    []jsonHeader `json:"headers"`
	}
	jsonHeader struct {
		Key   string `json:"key"`
		Value []byte `json:"value"`
	}
)

// jsonLetters converts letters. Lists are never null.
func jsonLetters(all []postgres.StoredLetter) []jsonLetter {
	out := []jsonLetter{}
	for _, l := range all {
		x := jsonLetter{Number: l.Number, Bridge: l.Bridge, Generation: int64(l.Generation), Checkpoint: int64(l.Checkpoint), Written: l.Written.UTC(),
			Topic: l.Topic, Partition: l.Partition.Partition, Offset: l.Offset, Column: l.Column, Class: l.Class, Error: strings.ToValidUTF8(l.Error, string(utf8.RuneError)),
			Changes: l.Changes, Key: l.Key, Value: l.Value, Headers: []jsonHeader{}}
		if l.Index >= 0 {
			x.Index = &l.Index
		}
		if !l.Timestamp.IsZero() {
			at := l.Timestamp.UTC()
			x.Timestamp = &at
		}
		for _, h := range l.Headers {
			x.Headers = append(x.Headers, jsonHeader{h.Key, h.Value})
		}
		out = append(out, x)
	}
	return out
}
