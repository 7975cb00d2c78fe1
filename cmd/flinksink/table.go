package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/all"
	"github.com/flinksink/flinksink/changelog/format/protobuf"
)

// bootstrap is the option that names the brokers.
const bootstrap = "properties.bootstrap.servers"

// tableFlags choose a table and how its records are decoded.
type tableFlags struct {
	ddl, name string
	lenient   bool
	proto     []string
	flink     string

	text string // of the file, once it was read
}

func (f *tableFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.ddl, "ddl", "", "`FILE` with the Flink CREATE TABLE, as it was written or as SHOW CREATE TABLE prints it; - is standard input (required)")
	fs.StringVar(&f.name, "table", "", "which `TABLE` of the file; not needed when the file creates one table only")
	fs.BoolVar(&f.lenient, "lenient", false, "guess where Flink guesses silently, instead of reporting a bad record")
	fs.StringArrayVar(&f.proto, "proto", nil, "`PATH` of the messages of format 'protobuf': a .proto file, a folder of them, or a descriptor set; may be repeated (default: the paths in FLINKSINK_PROTO)")
	fs.StringVar(&f.flink, "flink-version", "", "follow the rules of this Flink `VERSION` where its versions differ, e.g. 1.20 (default "+changelog.DefaultFlinkVersion.String()+")")
	cmd.MarkFlagRequired("ddl")
}

// brokerFlags override what the table says of its brokers.
type brokerFlags struct {
	brokers string
	config  []string
}

func (f *brokerFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.brokers, "brokers", "", "addresses to begin with, `HOST:PORT,...`, in place of the table's 'properties.bootstrap.servers'")
	fs.StringArrayVar(&f.config, "config", nil, "a Kafka client property, `KEY=VALUE`, e.g. security.protocol=SSL, in place of the table's; may be repeated")
}

// apply puts the flags into the table's options, where everything that reads them finds one answer.
func (f *brokerFlags) apply(t *ddl.Table) error { return f.applyAs("--config", t) }

func (f *brokerFlags) applyAs(flag string, t *ddl.Table) error {
	if t.Options == nil {
		t.Options = ddl.Options{}
	}
	for _, c := range f.config {
		k, v, ok := strings.Cut(c, "=")
		if k = strings.TrimPrefix(strings.TrimSpace(k), "properties."); !ok || k == "" {
			// The text is not shown: it may be a value whose key was forgotten.
			return usage(fmt.Errorf("%[1]s takes KEY=VALUE, e.g. %[1]s security.protocol=SSL", flag))
		}
		t.Options["properties."+k] = v
	}
	if f.brokers != "" {
		t.Options[bootstrap] = f.brokers
	}
	return nil
}

// where names the file, as an error begins.
func (f *tableFlags) where() string { return named("--ddl", f.ddl) }

// load returns the table as the file, and then the flags, describe it.
func (c *call) load(f *tableFlags, b *brokerFlags) (*ddl.Table, error) {
	var err error
	if f.text, err = c.readText("--ddl", f.ddl); err != nil {
		return nil, err
	}
	t, err := findTable(f.where(), f.text, f.name, "--table")
	if err != nil {
		return nil, err
	}
	if b != nil {
		if err := b.apply(t); err != nil {
			return nil, err
		}
		c.source = sourceOf(f, b, t)
	}
	c.secretsOf(t)
	return t, nil
}

// secretsOf keeps what a table's options hold of secrets out of every output.
func (c *call) secretsOf(t *ddl.Table) {
	for k, v := range t.Options {
		if ddl.SecretName(k) {
			c.secret(v)
			for _, m := range insideJAAS.FindAllStringSubmatch(v, -1) {
				c.secret(m[1])
			}
		}
	}
}

// insideJAAS finds the password of a sasl.jaas.config.
var insideJAAS = regexp.MustCompile(`(?i)password\s*=\s*["']?([^"';\s]+)`)

func (c *call) secret(s string) {
	if s != "" {
		c.secrets = append(c.secrets, s)
	}
}

// protoPaths is the environment variable that says what --proto says, as a list like PATH.
const protoPaths = "FLINKSINK_PROTO"

// formats are all formats; that of protobuf knows the messages that were named.
func (f *tableFlags) formats() ([]changelog.Format, error) {
	formats := all.Formats()
	paths, flag := f.proto, "--proto"
	if len(paths) == 0 {
		paths, flag = filepath.SplitList(os.Getenv(protoPaths)), protoPaths
	}
	if len(paths) == 0 {
		return formats, nil
	}
	if slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(p, "://") }) { // with a password in it, as may be
		return nil, config("%s takes paths of files and folders, and here one is a URL", flag)
	}
	files, err := protobuf.Load(context.Background(), paths...)
	var of *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist) && errors.As(err, &of):
		return nil, unreadable(flag+" "+of.Path, err)
	case err != nil:
		return nil, inFile(flag, err)
	}
	for i := range formats {
		if _, ok := formats[i].(protobuf.Format); ok {
			formats[i] = protobuf.Format{Files: files}
		}
	}
	return formats, nil
}

// inputOf is what a bridge reads by a table. What is wrong with an option is said of the flag that it came from.
func inputOf(f *tableFlags, b *brokerFlags, t *ddl.Table, d changelog.Decoder) (bridge.Input, error) {
	in, err := bridge.FromTable(t, d)
	if err == nil {
		return in, nil
	}
	text := err.Error()
	for _, of := range []string{"flinksink: ", "read table options: ", "configuration: "} { // what was being done is nothing that the user set
		text = strings.TrimPrefix(text, of)
	}
	if b.brokers != "" {
		text = strings.ReplaceAll(text, "option '"+bootstrap+"'", "--brokers")
	}
	for _, c := range b.config {
		k, _, _ := strings.Cut(c, "=")
		k = strings.TrimPrefix(strings.TrimSpace(k), "properties.")
		text = strings.ReplaceAll(text, "option 'properties."+k+"'", "--config "+k)
	}
	if !strings.HasPrefix(text, "--") {
		text = f.where() + ": " + text
	}
	return in, &configError{err: &worded{text, err}}
}

// decoder makes the decoder of t's records.
func decoder(t *ddl.Table, f *tableFlags) (changelog.Decoder, error) {
	formats, err := f.formats()
	if err != nil {
		return nil, err
	}
	version, err := changelog.ParseFlinkVersion(f.flink)
	if err != nil {
		return nil, inFile("--flink-version", err)
	}
	d, err := format.New(t, formats, &format.Options{Lenient: f.lenient, FlinkVersion: version})
	if err != nil {
		return nil, config("%s: table %s: %w", f.where(), t.Name(), err)
	}
	return d, nil
}
