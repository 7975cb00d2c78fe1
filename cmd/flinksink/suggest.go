package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// pastRecord adds to the error of a bridge that stopped at a bad record the command that gets past it. status is the bridge's at its end.
func pastRecord(err error, name string, at storeFlags, status bridge.Status) error {
	var e *sink.Error
	var bad *changelog.DataError // of a halt at a record; what else is refused is not known to have everything before it saved
	if !errors.As(err, &e) || e.Position == nil || !errors.Is(err, sink.ErrRejected) || !errors.As(err, &bad) {
		return err
	}
	words := append(append([]string{"flinksink", "positions", ""}, at.words()...), "--bridge", name)
	offset := func(offset int64) string {
		return fmt.Sprintf("%s:%d:%d", e.Position.Topic, e.Position.Partition.Partition, offset)
	}
	saved := int64(-1)
	for _, p := range status.Partitions {
		if p.Partition == e.Position.Partition {
			saved = p.Saved
		}
	}
	if saved >= 0 && saved < e.Position.Offset {
		// Between the last record and this one are offsets without a record, such as the end of a transaction: the position is before them.
		words[2] = "set"
		words = append(words, "--was", offset(saved), offset(e.Position.Offset+1))
	} else {
		words[2] = "skip"
		words = append(words, offset(e.Position.Offset))
	}
	for i, w := range words {
		words[i] = shell(w)
	}
	return fmt.Errorf("%w\nto skip this record: %s", err, strings.Join(words, " "))
}

// publicURL is a database's URL without its secrets.
func publicURL(to string) string {
	u, err := url.Parse(to)
	if err != nil || checkURL("--to", to) != nil {
		return "postgres://..."
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "postgres://..."
	}
	for _, secret := range []string{"password", "sslpassword"} {
		if q.Has(secret) {
			q.Del(secret)
			u.RawQuery = q.Encode()
		}
	}
	return u.String()
}

// shell quotes a word for a shell.
func shell(w string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@%+,=", r)
	}
	if w != "" && strings.TrimFunc(w, plain) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
