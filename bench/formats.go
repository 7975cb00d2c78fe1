package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/bench/internal/turns"
)

// rivalsFolder is the module of its own that measures formats beside other libraries, from where bench/run and from where go test run.
func rivalsFolder() (string, error) {
	for _, dir := range []string{filepath.Join("bench", "rivals"), "rivals"} {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", errors.New("bench/rivals is not here: run ./bench/run")
}

// formats lets bench/rivals measure. It is looked at as the main module is by ./test, which does not see it: formatting and go vet.
func (b *bench) formats(ctx context.Context) error {
	dir, err := rivalsFolder()
	if err != nil {
		return err
	}
	if unformatted, err := command(ctx, dir, "gofmt", "-l", "."); err != nil || len(unformatted) > 0 {
		return errors.Join(fmt.Errorf("gofmt -l: %s", unformatted), err)
	}
	if _, err := command(ctx, dir, "go", "vet", "."); err != nil {
		return err
	}
	each := "100ms"
	if b.quick {
		each = "30ms"
	}
	out, err := command(ctx, dir, "go", "run", ".", "-rounds", strconv.Itoa(b.rounds), "-for", each)
	if err != nil {
		return err
	}
	var groups []turns.Group
	if err := json.Unmarshal(out, &groups); err != nil {
		return err
	}
	b.say("\nFORMATS: decode into typed rows beside the best libraries, and write the rows again; one core")
	for i := range groups {
		b.format(&groups[i])
	}
	return nil
}

// format prints the table of one format, and notes its figures.
func (b *bench) format(g *turns.Group) {
	var ours figure
	for _, e := range g.Entries {
		if e.Role == turns.Decode {
			ours = e.CPU
		}
	}
	b.say("\n%s, messages of %d bytes", g.Name, g.Bytes)
	w := b.table("", "rows a CPU second", "rows/s by the clock", "allocations a row", "bytes a row", "flinksink's decoder ÷ it")
	var best turns.Entry
	for _, e := range g.Entries {
		cpu := figure(e.CPU)
		line(w, e.Name, cpu.String(), figure(e.Rate).String(), number(figure(e.Allocs).median()), number(figure(e.Bytes).median()), ours.over(cpu).String())
		switch {
		case e.Role == turns.Decode && g.Want > 0:
			b.goal(g.Name+": decode, rows of one core", "rows/s", g.Want, e.CPU...)
			if g.Allocs >= 0 {
				b.atMost(g.Name+": decode, allocations a row", "", g.Allocs, e.Allocs...)
			}
		case e.Role == turns.Encode:
			b.atMost(g.Name+": time of the encoder ÷ that of the decoder", "", 1.5, ours.over(cpu)...)
		case e.Role == turns.Rival && !e.Apart && (best.Name == "" || cpu.median() > figure(best.CPU).median()):
			best = e
		}
	}
	flush(w)
	if best.Name != "" {
		b.goal(g.Name+": decode, speed ÷ that of "+best.Name, "", 1, ours.over(best.CPU)...)
	}
}

// command runs a command in a folder and returns its standard output. An error has what it said.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}
