package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/changelog/format/raw"
	"github.com/flinksink/flinksink/sink"
	s3sink "github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/avro"
	"github.com/flinksink/flinksink/sink/s3/parquet"
)

// s3Flags say what files are like, and how their server is reached.
type s3Flags struct {
	format, compression string
	kind                string
	partitionBy         []string
	manifest            bool
	eventTime           string
	fileMiB             int64

	endpoint, region string
	pathStyle        choice // where it is not made: true where an endpoint is named
}

func (f *s3Flags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.kind, "s3-kind", "", "s3: what a row of a file is: `KIND` is append (default: the table only inserts), changelog (every change, with its kind and position) or upsert (the last change of each key in a file)")
	fs.BoolVar(&f.manifest, "s3-manifest", true, "s3: write an object for each checkpoint that names its files, by which readers see all of it or nothing; verify, compact and success go by it")
	fs.StringVar(&f.eventTime, "s3-event-time", "", "s3: Flink `COLUMN` of time whose greatest value goes into the manifests, for success")
	fs.Int64Var(&f.fileMiB, "s3-file-size", 256, "s3: `MiB` at which a file is ended; each checkpoint ends all, see --interval")
	f.addFiles(cmd)
	f.addClient(cmd)
}

// addFiles adds those that say how files are to be read.
func (f *s3Flags) addFiles(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.format, "s3-format", "json", "s3: `FORMAT` of the files: json (lines), csv, raw, parquet or avro")
	fs.StringVar(&f.compression, "s3-compression", "none", "s3: `HOW` files of lines are compressed: none, gzip or zstd; parquet and avro compress by themselves")
	fs.StringArrayVar(&f.partitionBy, "s3-partition-by", nil, "s3: `COLUMN` whose value makes folders COLUMN=VALUE, or NAME=COLUMN|LAYOUT for a time, as in 'day=ts|yyyy-MM-dd'; may be repeated, from the outside in")
}

// addClient adds those that a store has too.
func (f *s3Flags) addClient(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.endpoint, "s3-endpoint", "", "s3: `URL` of a server that is not AWS (default AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or that of the profile)")
	fs.StringVar(&f.region, "s3-region", "", "s3: `REGION` (default AWS_REGION, or that of the profile; us-east-1 where an endpoint is named)")
	fs.Var(&f.pathStyle, "s3-path-style", "s3: the bucket is a part of the path and not of the host's name, where it is with =false (default true where an endpoint is named, else false)")
	fs.Lookup("s3-path-style").NoOptDefVal = "true"
}

// words are the flags of a client that were given.
func (f *s3Flags) words() (out []string) {
	if f.endpoint != "" {
		out = append(out, "--s3-endpoint", f.endpoint)
	}
	if f.region != "" {
		out = append(out, "--s3-region", f.region)
	}
	if f.pathStyle != "" {
		out = append(out, "--s3-path-style="+string(f.pathStyle))
	}
	return out
}

// rows is the kind of rows by its name here.
func (f *s3Flags) rows() (s3sink.Kind, error) {
	switch f.kind {
	case "", "append":
		return s3sink.AppendOnly, nil
	case "changelog":
		return s3sink.Changelog, nil
	case "upsert":
		return s3sink.Upsert, nil
	}
	return 0, usage(fmt.Errorf("--s3-kind %q: it is append, changelog or upsert", f.kind))
}

func (f *s3Flags) files() (s3sink.Format, error) {
	switch f.format {
	case "json":
		return s3sink.JSONLines(), nil
	case "csv":
		return s3sink.Lines(csv.Format{}, nil), nil
	case "raw":
		return s3sink.Lines(raw.Format{}, nil), nil
	case "parquet":
		return parquet.New(nil), nil
	case "avro":
		return avro.New(nil), nil
	}
	return nil, usage(fmt.Errorf("--s3-format %q: it is json, csv, raw, parquet or avro", f.format))
}

func (f *s3Flags) compressed() (s3sink.Compression, error) {
	switch f.compression {
	case "none":
		return s3sink.Uncompressed, nil
	case "gzip":
		return s3sink.Gzip, nil
	case "zstd":
		return s3sink.Zstd, nil
	}
	return 0, usage(fmt.Errorf("--s3-compression %q: it is none, gzip or zstd", f.compression))
}

// folders reads --s3-partition-by.
func (f *s3Flags) folders() (out []s3sink.PartitionField, err error) {
	for _, text := range f.partitionBy {
		name, column, named := strings.Cut(text, "=")
		if !named {
			name, column = "", text
		}
		column, pattern, timed := strings.Cut(column, "|")
		p := s3sink.PartitionField{Name: name, Column: column}
		if column == "" || named && name == "" || timed && (pattern == "" || name == "") {
			return nil, usage(fmt.Errorf("--s3-partition-by %q: write COLUMN, or NAME=COLUMN|LAYOUT for a time, as in 'day=ts|yyyy-MM-dd'", text))
		}
		if timed {
			p.Layout = timeLetters.Replace(pattern)
			if strings.Trim(p.Layout, "0123456789-._:T ") != "" {
				return nil, usage(fmt.Errorf("--s3-partition-by %q: the layout is made of yyyy, MM, dd, HH, mm and the signs - . _ :", text))
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// timeLetters turns the letters that Flink has for times into those of package time.
var timeLetters = strings.NewReplacer("yyyy", "2006", "MM", "01", "dd", "02", "HH", "15", "mm", "04")

// options are those of the sink.
func (f *s3Flags) options(mode string) (*s3sink.Options, error) {
	o := &s3sink.Options{Manifest: f.manifest, EventTime: f.eventTime, MaxFileBytes: f.fileMiB << 20}
	if mode == "rename" {
		o.Mode = s3sink.Rename
	}
	var kind, format, compression, folders error
	o.Kind, kind = f.rows()
	o.Format, format = f.files()
	o.Compression, compression = f.compressed()
	o.PartitionBy, folders = f.folders()
	if err := errors.Join(kind, format, compression, folders, within("--s3-file-size", f.fileMiB, 1, mostMiB)); err != nil {
		return nil, err
	}
	return o, nil
}

// mostMiB is 5 TiB, the largest object that S3 has.
const mostMiB = 5 << 20

// filesTarget is a folder of a bucket.
type filesTarget struct {
	place
	f      *targetFlags
	mode   string // "": multipart
	folder folder

	client  *s3.Client
	options *s3sink.Options
	sink    *s3sink.Sink
}

func (t *filesTarget) at() place { return t.place }

func (t *filesTarget) into(*ddl.Table) string {
	return "files below " + t.folder.String()
}

func (t *filesTarget) own() bool { return false }

// values implements target.
func (t *filesTarget) values() (err error) {
	t.options, err = t.f.s3.options(t.mode)
	return err
}

// build implements target.
func (t *filesTarget) build(c *call, r *reading) error {
	var bad error
	t.client, bad = c.newBucketClient("--to", &t.f.s3)
	client := t.client
	if bad != nil {
		client = s3.New(s3.Options{}) // the options are judged all the same, and nothing is asked of it
	}
	var err error
	if t.sink, err = s3sink.New(client, t.folder.bucket, t.folder.prefix, t.options); err == nil && r.writes && r.in.Decoder != nil {
		_, err = t.sink.NewFile(r.in.Decoder.Table(), io.Discard)
		if e, ok := err.(*sink.Error); ok && e.Err != nil {
			err = &configError{err: e.Err}
		}
	}
	return errors.Join(bad, err)
}

// open implements target.
func (t *filesTarget) open(ctx context.Context, c *call, _ *reading) (sink.Sink, error) {
	return t.sink, c.reach(ctx, "--to", &t.f.s3, t.client, t.folder)
}

func (t *filesTarget) keeper() (sink.Store, error) {
	st, err := s3sink.NewStore(t.client, t.folder.bucket, t.folder.prefix, t.options.Settings)
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (t *filesTarget) ready(context.Context, *reading, string, string) error { return nil }

// check implements target.
func (t *filesTarget) check(ctx context.Context, k *checkup, s *subject, l sink.Lane, _ string) bool {
	if s.dec == nil {
		l.Tables = []*changelog.Table{}
	}
	lane, err := t.sink.Lane(ctx, l) // asks for the bucket, and changes nothing
	if k.bad("target", err) {
		return false
	}
	if k.bad("target", lane.Close(ctx)) {
		return false
	}
	k.ok("target", "bucket %s is there, and takes the table as %s files", t.folder.bucket, t.f.s3.format)
	if !t.options.Manifest {
		k.note("target", "without manifests readers see the files of a checkpoint one after the other, and verify, compact and success have nothing to go by (--s3-manifest)")
	}
	if len(t.f.to) > 1 {
		k.note("target", "the interval of a bridge of several targets is %s by default, and each checkpoint ends all files: give the lake a bridge of its own, which has %s, or merge its files (flinksink compact)", bridge.DefaultInterval, s3sink.DefaultInterval)
	}
	t.lifecycle(ctx, k)
	return true
}

// lifecycle prints what the bucket's lifecycle rules lack.
func (t *filesTarget) lifecycle(ctx context.Context, k *checkup) {
	lacks, err := t.sink.SuggestLifecycle(ctx)
	if err != nil {
		var e *sink.Error
		if errors.As(err, &e) && e.Err != nil {
			err = e.Err
		}
		k.skip("lifecycle", "the lifecycle rules of bucket %s cannot be seen, which stops nothing: %v.\nOne should abort incomplete uploads, after 7 days or more", t.folder.bucket, strings.TrimSuffix(err.Error(), "."))
	}
	for _, l := range lacks {
		text := fmt.Sprintf("bucket %s: %s", t.folder.bucket, l.Text)
		if l.Rule != "" {
			text += ". Add this rule to those of its lifecycle configuration:\n" + l.Rule
		}
		k.note("lifecycle", "%s", text)
	}
	if err == nil && len(lacks) == 0 {
		k.ok("lifecycle", "the rules of bucket %s take away what is left, and nothing else of the bridge's", t.folder.bucket)
	}
}

func (t *filesTarget) close() {}
