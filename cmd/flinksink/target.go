package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
)

// targetFlags say where changes go, and how.
type targetFlags struct {
	to     []string
	modes  []string
	create bool
	keep   storeFlags

	table tablesFlags
	kafka kafkaFlags
	s3    s3Flags
	index indexFlags
}

func (f *targetFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.to, "to", nil, "`URL` to write to: "+spellings(targetKinds()...)+"; may be repeated, with one of each kind; a password is better kept in PGPASSWORD or ~/.pgpass (required)")
	fs.StringArrayVar(&f.modes, "mode", nil, "`MODE` in which rows wait for the decision. postgres: auto (default: the best that the server and --store allow), in-transaction, prepared (two-phase commit of the server) or staged (a table of flinksink's own); "+
		"kafka: in-transaction (default where it is the store) or two-phase; s3: multipart (default) or rename. KIND=MODE where two targets have such a mode; may be repeated")
	fs.BoolVar(&f.create, "create-table", false, "create the table, or the index, if it is missing")
	f.keep.add(cmd)
	f.table.add(cmd)
	f.kafka.add(cmd)
	f.s3.add(cmd)
	f.index.add(cmd)
	cmd.MarkFlagRequired("to")
}

func targetKinds() []kind { return []kind{atPostgres, atKafka, atS3, atIndex} }

func spellings(kinds ...kind) string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.spelling())
	}
	return strings.Join(out, ", ")
}

// reading is what a target is told of the bridge that writes to it.
type reading struct {
	interval time.Duration // between two checkpoints; 0: not known. A transaction of Kafka is open for as long
	bridge   string
	table    *ddl.Table
	in       bridge.Input
	formats  []changelog.Format
	lanes    int
	source   string // the text of --ddl
	from     string // where that is from
	named    string // --table
	apart    bool   // the brokers are in this process: no target is on their cluster
	writes   bool   // rows of the table are to be written: targets judge whether they take them
}

func newReading(name string, t *ddl.Table, in bridge.Input, f *tableFlags, lanes int) (*reading, error) {
	formats, err := f.formats()
	if err != nil {
		return nil, err
	}
	return &reading{bridge: name, table: t, in: in, formats: formats, lanes: lanes, source: f.text, from: f.where(), named: f.name}, nil
}

// target is one place that --to names.
type target interface {
	at() place
	// values says which flags of its kind have values that they do not take.
	values() error
	// build says what is wrong with flags, files and the table together, and makes the clients. It reaches no server.
	build(c *call, r *reading) error
	// open connects to what was built, or says within c.patience why it cannot, and makes the sink.
	open(ctx context.Context, c *call, r *reading) (sink.Sink, error)
	// into names for people what is written into.
	into(t *ddl.Table) string
	// own reports that the sink is its own store.
	own() bool
	// keeper returns the store beside the rows, which decides if no other does; nil: nothing there can.
	keeper() (sink.Store, error)
	// ready looks at what --create-table would make, before it is made.
	ready(ctx context.Context, r *reading, sinkName, fingerprint string) error
	// check looks at the place as a bridge's start would, and changes nothing.
	check(ctx context.Context, k *checkup, s *subject, l sink.Lane, fingerprint string) (fine bool)
	close()
}

// modes are those that a kind of target has; the first is its default.
func (k kind) modes() []string {
	switch k {
	case atPostgres:
		return []string{"auto", "in-transaction", "prepared", "staged"}
	case atKafka:
		return []string{"in-transaction", "two-phase"}
	case atS3:
		return []string{"multipart", "rename"}
	}
	return nil
}

// chooseModes reads --mode.
func chooseModes(values []string, places []place) (map[kind]string, error) {
	chosen := make(map[kind]string)
	for _, v := range values {
		of, mode, named := strings.Cut(v, "=")
		if !named {
			of, mode = "", v
		}
		var fit []kind
		var all []string
		for _, p := range places {
			if of != "" && of != string(p.kind) {
				continue
			}
			all = append(all, p.kind.modes()...)
			if slices.Contains(p.kind.modes(), mode) {
				fit = append(fit, p.kind)
			}
		}
		switch {
		case len(all) == 0 && of != "":
			return nil, usage(fmt.Errorf("--mode %q: no --to of kind %s has modes", v, of))
		case len(all) == 0:
			return nil, usage(fmt.Errorf("--mode %q: %s has no modes", v, places[0].kind.article()))
		case len(fit) == 0:
			return nil, usage(fmt.Errorf("--mode %q: it is %s or %s", v, strings.Join(all[:len(all)-1], ", "), all[len(all)-1]))
		case len(fit) > 1:
			return nil, usage(fmt.Errorf("--mode %q is one of two targets: write %s=%[1]s or %[3]s=%[1]s", v, fit[0], fit[1]))
		case chosen[fit[0]] != "":
			return nil, usage(fmt.Errorf("--mode names two modes of %s", fit[0]))
		}
		chosen[fit[0]] = mode
	}
	return chosen, nil
}

// targets reads --to and what belongs to it. No server is asked.
func (c *call) targets(cmd *cobra.Command, f *targetFlags) ([]target, error) {
	var places []place
	for _, to := range f.to {
		p, err := c.placeOf("--to", to, targetKinds()...)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(places, func(q place) bool { return q.kind == p.kind }) {
			return nil, usage(fmt.Errorf("--to names %s twice: a run takes one target of each kind, as its flags are those of the kind; for more write a program with bridge.NewMany, or give each a bridge of its own", p.kind))
		}
		places = append(places, p)
		c.kinds = append(c.kinds, p.kind)
	}
	modes, err := chooseModes(f.modes, places)
	if err != nil {
		return nil, err
	}
	named := slices.Clone(places)
	if f.keep.url != "" {
		p, err := c.placeOf("--store", f.keep.url, storeKinds()...)
		if err != nil {
			return nil, err
		}
		named = append(named, p)
	}
	if err := flagsOfOthers(cmd.Flags(), named); err != nil {
		return nil, err
	}
	var out []target
	var errs []error
	for _, p := range places {
		mode := modes[p.kind]
		switch p.kind {
		case atPostgres:
			out = append(out, &tableTarget{place: p, f: f, mode: mode})
		case atKafka:
			// Of two sinks that are their own store one has to leave the decision to the other.
			if elsewhere := f.keep.url != "" || slices.ContainsFunc(places, func(q place) bool {
				return q.kind == atPostgres && modes[atPostgres] != "prepared" && modes[atPostgres] != "staged"
			}); mode == "" && elsewhere {
				mode = "two-phase"
			}
			b, err := p.broker("--to")
			if err == nil && b.topic == "" {
				err = config("--to takes %s, and the topic is missing", p.kind.spelling())
			}
			errs = append(errs, err)
			out = append(out, &topicTarget{place: p, f: f, mode: mode, broker: b})
		case atS3:
			d, err := p.folder("--to")
			errs = append(errs, err)
			out = append(out, &filesTarget{place: p, f: f, mode: mode, folder: d})
		case atIndex:
			out = append(out, &indexTarget{place: p, f: f})
		}
		errs = append(errs, out[len(out)-1].values())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// flagsOfOthers refuses flags of a kind that nothing names: somebody expects something of them.
func flagsOfOthers(fs *pflag.FlagSet, named []place) error {
	var err error
	fs.Visit(func(fl *pflag.Flag) {
		of := ownerOf(fl.Name)
		if err == nil && of != "" && !slices.ContainsFunc(named, func(p place) bool { return p.kind == of }) {
			err = usage(fmt.Errorf("--%s is for %s, and nothing here names one (%s)", fl.Name, of.article(), of.spelling()))
		}
	})
	return err
}

// ownerOf returns the kind that a flag belongs to, "" for all.
func ownerOf(flag string) kind {
	switch {
	case strings.HasPrefix(flag, "kafka-"):
		return atKafka
	case strings.HasPrefix(flag, "s3-"):
		return atS3
	case strings.HasPrefix(flag, "index-"):
		return atIndex
	case slices.Contains(tableFlagNames(), flag):
		return atPostgres
	}
	return ""
}
