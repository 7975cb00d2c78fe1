package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flinksink/flinksink/internal/capture"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// result is what a command line did.
type result struct {
	status    int
	out, errs string
}

// command runs one command line in this process.
func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandContext(t.Context(), args...)
}

func commandContext(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	status := execute(ctx, args, strings.NewReader(""), &out, &errs)
	return result{status, out.String(), errs.String()}
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), text); d != "" {
		t.Errorf("%s differs (-update rewrites it):\n%s", path, d)
	}
}

// write puts text into a file of the test's own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const captures = "../../testdata/flink"

// testCase is a topic that a real Flink job wrote.
type testCase struct {
	name, ddl, topic string
	recs             []capture.Record
	left             func(line string) bool // of the lines of read.jsonl; nil: all
}

func (c testCase) file(name string) string { return filepath.Join(captures, c.name, name) }

// lines returns a file's lines, nil if there is no such file.
func (c testCase) lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(c.file(name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	out := lines(string(b))
	if name == "read.jsonl" && c.left != nil {
		out = slices.DeleteFunc(out, func(l string) bool { return !c.left(l) })
	}
	return out
}

func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
}

// cases returns the captured topics.
func cases(t *testing.T) []testCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(captures, "*", "topic.jsonl"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d captured topics in %s (%v)", len(files), captures, err)
	}
	t.Setenv("FLINKSINK_PROTO", filepath.Join(captures, "proto"))
	var out []testCase
	for _, f := range files {
		c := testCase{name: filepath.Base(filepath.Dir(f)), topic: f}
		c.ddl = c.file("ddl.sql")
		if strings.Contains(c.name, "avro_confluent") || strings.HasPrefix(c.name, "debezium_avro") {
			continue // they need a schema registry at localhost:8081; package format reads them with one of its own
		}
		if c.recs, err = capture.ReadFile(f); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func (c testCase) partitions() int {
	n := 1
	for i := range c.recs {
		n = max(n, int(c.recs[i].Partition.Partition)+1)
	}
	return n
}

// hidden counts the records that a read_committed consumer does not get.
func (c testCase) hidden() int {
	n := 0
	for i := range c.recs {
		if !c.recs[i].Visible() {
			n++
		}
	}
	return n
}
