package s3

import (
	"context"
	"encoding/hex"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
)

// SinkName names a sink of a bridge that has left something below a prefix. Long names are cut off there, and end in "...".
type SinkName struct{ Bridge, Sink string }

// Sinks lists the sinks that have left anything of their own below prefix, such as manifests, in the order of their folders: what a tool shows to somebody who named one
// that is not there. It takes one or two requests for each.
func Sinks(ctx context.Context, client *s3.Client, bucketName, prefix string) ([]SinkName, error) {
	err := place(client, bucketName, prefix)
	if err != nil {
		return nil, &sink.Error{Op: "read", Class: sink.ErrConfig, Err: err}
	}
	b := bucket{api: client, name: bucketName}
	prefix = strings.Trim(prefix, "/")
	root, after := path.Join(prefix, ownFolder)+"/", ""
	found := errors.New("found")
	var out []SinkName
	for {
		dir := ""
		err := b.listAll(ctx, root, after, func(key string, _ time.Time) error {
			words := strings.Split(strings.TrimPrefix(key, root), "/")
			if len(words) < 3 { // a store's object
				return nil
			}
			dir = root + words[0] + "/" + words[1]
			out = append(out, SinkName{unescape(words[0]), unescape(words[1])})
			return found
		})
		switch {
		case err == nil:
			return out, nil
		case err != found:
			return nil, wrap(ctx, "read", "", "", classify(err), err)
		}
		after = dir + "0" // '0' comes after '/': behind all that is in the folder
	}
}

// unescape is the name that escape made a word of.
func unescape(word string) string {
	word, cut := cutHash(word)
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] == '!' && i+2 < len(word) {
			if c, err := hex.DecodeString(word[i+1 : i+3]); err == nil {
				b.Write(c)
				i += 2
				continue
			}
		}
		if word[i] != '!' {
			b.WriteByte(word[i])
		}
	}
	return b.String() + cut
}

// cutHash takes the hash of a long name away.
func cutHash(word string) (rest, cut string) {
	if i := strings.LastIndex(word, "!!"); i >= 0 && len(word)-i == 18 {
		return strings.TrimRight(word[:i], "!"), "..."
	}
	return word, ""
}
