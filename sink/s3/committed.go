package s3

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
)

// Committed reports whether a receipt is proven to be committed: its manifest is there or, where it has none, every file of it, each with the token that is this
// receipt's alone. It only reads, so it may be called beside a running bridge, by tools that show what a store still lists. false proves nothing: the
// commit may not have been tried yet, or what it made may have been taken away since. A receipt of another sink is an error.
func Committed(ctx context.Context, client *s3.Client, of sink.Committable) (bool, error) {
	c := &committer{s: &Sink{b: bucket{api: client}}, lane: sink.Lane{Sink: of.Sink}}
	done, err := c.committed(ctx, of)
	return done, wrap(ctx, "read", of.Sink, "", classifyOrNil(err), err)
}

func (c *committer) committed(ctx context.Context, d sink.Committable) (bool, error) {
	r, b, err := c.load(ctx, d)
	if err != nil {
		return false, err
	}
	if r.Manifest != "" { // it comes last, and stays when its files are merged
		o, ok, err := b.head(ctx, r.Manifest)
		return ok && o.token == r.Token, err
	}
	for i := range r.Files {
		f := &r.Files[i]
		if o, ok, err := b.head(ctx, f.Key); err != nil || !ok || o.token != f.Token || o.size != f.Size {
			return false, err
		}
	}
	return true, nil
}
