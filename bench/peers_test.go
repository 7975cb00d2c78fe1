package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bento and its hundred modules come near no user of the main module, and bench/peers is no package of it.
func TestPeersStayOut(t *testing.T) {
	read := func(elem ...string) []byte {
		text, err := os.ReadFile(filepath.Join(elem...))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const bento = "github.com/warpstreamlabs/bento"
	for _, c := range []struct {
		file     string
		requires bool
	}{{filepath.Join("..", "go.mod"), false}, {filepath.Join("..", "go.sum"), false}, {filepath.Join("peers", "go.mod"), false}, {filepath.Join("peers", "bento", "go.mod"), true}} {
		if got := bytes.Contains(read(c.file), []byte(bento)); got != c.requires {
			t.Errorf("%s names %s: %v, want %v", c.file, bento, got, c.requires)
		}
	}
	out, err := command(t.Context(), "..", "go", "list", "./bench/...")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "/bench/internal/rows\n") || strings.Contains(string(out), "/bench/peers") {
		t.Errorf("packages of the main module:\n%s", out)
	}
}

// The module is looked at where its libraries are, which only bench/peers/run fetches.
func TestPeers(t *testing.T) {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("set FLINKSINK_LONG=1, as ./test full does, to run the tests of bench/peers")
	}
	if unformatted, err := command(t.Context(), "peers", "gofmt", "-l", "."); err != nil || len(unformatted) > 0 {
		t.Errorf("gofmt -l: %s %v", unformatted, err)
	}
	if _, err := command(t.Context(), "peers", "go", "list", "-deps", "."); err != nil {
		t.Skipf("the libraries of bench/peers are not here; bench/peers/run fetches them: %v", err)
	}
	for _, args := range [][]string{{"vet", "."}, {"test", "."}} {
		if out, err := command(t.Context(), "peers", "go", args...); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
