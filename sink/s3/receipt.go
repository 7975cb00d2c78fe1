package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/flinksink/flinksink/sink"
)

// receiptVersion is that of a committable's bytes. A change that an older release would misread raises it; every older version stays readable, and
// testdata has one of each. Version 2 has EventTimes; a receipt without them is of version 1, which older releases read.
const receiptVersion = 2

func (c *committer) receiptVersion() int {
	if len(c.saw) > 0 {
		return receiptVersion
	}
	return 1
}

// receipt is what another process needs to commit or abort: JSON, which people can read too. Keys are whole, so that a sink with other settings
// commits it all the same.
type receipt struct {
	Bridge     string        `json:"bridge"`
	Bucket     string        `json:"bucket"`
	Token      string        `json:"token"`
	Manifest   string        `json:"manifest,omitempty"` // key
	Files      []fileReceipt `json:"files,omitempty"`
	EventTimes []EventTime   `json:"event_times,omitempty"`

	// A long receipt is an object, and these few say which.
	Object string `json:"object,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// fileReceipt is one file: either an upload that waits to be completed, or a staged object that waits to be copied.
type fileReceipt struct {
	Table       string        `json:"table"` // "": of dead letters
	Key         string        `json:"key"`
	Token       string        `json:"token"`
	Rows        int64         `json:"rows"`
	Size        int64         `json:"size"`
	SHA256      string        `json:"sha256"`
	ContentType string        `json:"content_type,omitempty"`
	Upload      string        `json:"upload,omitempty"`
	Parts       []partReceipt `json:"parts,omitempty"`
	Staged      string        `json:"staged,omitempty"` // key
	ETag        string        `json:"etag,omitempty"`   // of the staged object
}

// receipt returns the bytes of the prepared checkpoint's receipt. What is too long for the store goes into an object, before Prepare looks whether the
// generation is alive, as all else.
func (c *committer) receipt(ctx context.Context, cut sink.Cut) ([]byte, error) {
	r := receipt{Bridge: c.lane.Bridge, Bucket: c.s.b.name, Token: newToken(), EventTimes: c.eventTimes()}
	if c.s.o.Manifest {
		r.Manifest = c.names.own("manifest", numbered(c.gen.ID, cut.Checkpoint)+"-"+r.Token[:8]+".json")
	}
	for _, f := range c.done {
		r.Files = append(r.Files, f.receipt())
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) <= c.s.maxInline {
		return b, err
	}
	sum := sha256.Sum256(b)
	short := receipt{Bridge: r.Bridge, Bucket: r.Bucket, Token: r.Token, SHA256: hex.EncodeToString(sum[:]),
		Object: c.names.own("receipt", numbered(c.gen.ID, cut.Checkpoint)+"-"+r.Token[:8])}
	if _, err := c.s.b.put(ctx, short.Object, b, condition{}, r.Token); err != nil {
		return nil, err
	}
	return json.Marshal(short)
}

// removeReceipt frees the object of a receipt that nobody will be given.
func (c *committer) removeReceipt(ctx context.Context, d sink.Committable) {
	r, err := parseReceipt(d.Version, d.Data)
	if err != nil || r.Object == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	c.s.b.remove(ctx, r.Object)
}

// parseReceipt reads a committable's bytes, and those of the object that a short one names.
func parseReceipt(version int, data []byte) (*receipt, error) {
	if version < 1 || version > receiptVersion {
		return nil, errorf(sink.ErrConfig, "the committable is in version %d of the format, and this release reads versions 1 to %d: use the release that wrote it, or a newer one", version, receiptVersion)
	}
	r := &receipt{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(r)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("there is something behind its end")
		}
	}
	if err == nil {
		err = r.sound()
	}
	if err != nil {
		return nil, errorf(sink.ErrLost, "the committable is damaged: %w", err)
	}
	return r, nil
}

// sound checks what the code relies on.
func (r *receipt) sound() error {
	if r.Bucket == "" || r.Token == "" || r.Object == "" && len(r.Files) == 0 || r.Object != "" && r.SHA256 == "" {
		return errors.New("it names no files")
	}
	for i, f := range r.Files {
		if f.Key == "" || f.Token == "" || (f.Upload == "") == (f.Staged == "") || f.Upload != "" && len(f.Parts) == 0 {
			return fmt.Errorf("file number %d", i)
		}
	}
	return nil
}

// load returns the whole receipt of a committable, and the bucket that it is about.
func (c *committer) load(ctx context.Context, d sink.Committable) (*receipt, *bucket, error) {
	r, err := parseReceipt(d.Version, d.Data)
	if err != nil {
		return nil, nil, err
	}
	b := c.s.b
	b.name = r.Bucket
	if r.Object == "" {
		return r, &b, nil
	}
	body, _, ok, err := b.get(ctx, r.Object)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(body)
	switch {
	case !ok:
		return r, &b, errorf(sink.ErrLost, "its receipt, the object %s, is gone", brief(r.Object))
	case hex.EncodeToString(sum[:]) != r.SHA256:
		return r, &b, errorf(sink.ErrLost, "its receipt, the object %s, is not what was written", brief(r.Object))
	}
	long, err := parseReceipt(d.Version, body)
	if err == nil && (long.Object != "" || long.Token != r.Token) {
		err = errorf(sink.ErrLost, "its receipt, the object %s, is another one's", brief(r.Object))
	}
	return long, &b, err
}
