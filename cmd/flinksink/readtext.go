package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/internal/capture"
)

// This file reads the files that flags name, so that an error says which flag, which file, and which line of it.

// stdin is how a flag names standard input.
const stdin = "-"

// named is a flag with its file, as an error begins.
func named(flag, path string) string {
	if path == stdin {
		return flag + " " + stdin + " (standard input)"
	}
	return flag + " " + path
}

// readText reads the file of a flag, or standard input, which can be that of one flag. A byte order mark, which editors of Windows write, is no part of the text.
func (c *call) readText(flag, path string) (string, error) {
	var text []byte
	var err error
	switch {
	case path == "":
		return "", usage(fmt.Errorf("%s is empty: name a file", flag))
	case path != stdin:
		text, err = os.ReadFile(path)
	case c.inputOf != "" && c.inputOf != flag:
		return "", usage(fmt.Errorf("%s and %s cannot both be standard input", flag, c.inputOf)) // a file called so is ./-
	case c.inputOf == "" && c.in != nil:
		c.inputOf = flag
		c.input, err = io.ReadAll(c.in)
		fallthrough
	default:
		text = c.input
	}
	if err != nil {
		return "", unreadable(named(flag, path), err)
	}
	switch text = bytes.TrimPrefix(text, []byte(mark)); {
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")), bytes.IndexByte(text, 0) >= 0:
		return "", config("%s: it is no plain text (UTF-16, as some editors and PowerShell save, is not read): save it as UTF-8", named(flag, path))
	case len(bytes.TrimSpace(text)) == 0 && path == stdin:
		return "", config("%s: nothing came: pipe the text in, or name a file", named(flag, path))
	}
	return string(text), nil
}

// mark is the byte order mark in UTF-8.
const mark = "\uFEFF"

// unreadable says why a file cannot be read. where names it and what named it.
func unreadable(where string, err error) error {
	var of *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &configError{err: &worded{where + ": there is no such file: correct the path", err}}
	case errors.Is(err, fs.ErrPermission):
		return &configError{err: &worded{where + ": this user may not read it: change its rights", err}}
	case errors.As(err, &of):
		return &configError{err: &worded{where + ": it cannot be read: " + of.Err.Error(), err}}
	}
	return &configError{err: &worded{where + ": it cannot be read", err}}
}

// worded keeps an error in reach without its text.
type worded struct {
	text string
	err  error
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.err }

// inFile says where a text was found to be wrong; what is read of statements tells its line.
func inFile(where string, err error) error {
	text := err.Error()
	for _, of := range []string{"ddl: ", "explain: ", "protobuf: ", "capture: ", "changelog: "} { // which package found it is nothing to the user
		text = strings.TrimPrefix(text, of)
	}
	return &configError{err: &worded{where + ": " + text, err}}
}

// findTable reads a table out of the text of a file.
func findTable(where, text, name, tableFlag string) (*ddl.Table, error) {
	t, err := ddl.Find(text, name)
	if err == nil {
		return t, nil
	}
	var e *ddl.Error
	if errors.As(err, &e) && e.Line == 0 && !strings.Contains(e.Reason, "holds no CREATE TABLE") { // it is about which of the tables
		where += " (" + tableFlag + ")"
	}
	return nil, inFile(where, err)
}

// readCapture reads the captured topic of --file.
func readCapture(path string) ([]capture.Record, error) {
	if path == "" {
		return nil, usage(errors.New("--file is empty: name a file"))
	}
	recs, err := capture.ReadFile(path)
	var of *fs.PathError
	switch where := named("--file", path); {
	case errors.As(err, &of):
		return nil, unreadable(where, err)
	case err != nil:
		return nil, inFile(where, errors.New(strings.TrimSuffix(err.Error(), " (in "+path+")")))
	}
	return recs, nil
}
