package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// manifestVersion is that of a manifest's format.
const manifestVersion = 1

// Manifest names all files of one committed checkpoint. It is written after all of them are visible, so that who reads by it sees all of a checkpoint
// or nothing. It follows from the receipt alone: two processes that commit the same checkpoint write the same bytes.
type Manifest struct {
	Format     int               `json:"format"` // 1
	Bridge     string            `json:"bridge"`
	Sink       string            `json:"sink"`
	Generation sink.GenerationID `json:"generation"`
	Checkpoint sink.CheckpointID `json:"checkpoint"`
	From       []Offset          `json:"from"`
	To         []Offset          `json:"to"`
	Files      []ManifestFile    `json:"files"`
}

// Offset is a position in a topic: the next offset to read.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// ManifestFile is one file of a checkpoint.
type ManifestFile struct {
	Table  string `json:"table"`
	Key    string `json:"key"` // in the bucket, with the prefix
	Rows   int64  `json:"rows"`
	Size   int64  `json:"size"` // bytes, as they are stored
	SHA256 string `json:"sha256"`
}

func offsets(ps []changelog.Position) []Offset {
	out := make([]Offset, len(ps))
	for i, p := range ps {
		out[i] = Offset{p.Topic, p.Partition.Partition, p.Offset}
	}
	return out
}

// manifest writes the manifest of a checkpoint whose files are all visible.
func (c *committer) manifest(ctx context.Context, b *bucket, r *receipt, d sink.Committable) error {
	m := Manifest{Format: manifestVersion, Bridge: r.Bridge, Sink: d.Sink, Generation: d.Generation, Checkpoint: d.Checkpoint, From: offsets(d.From), To: offsets(d.To)}
	for _, f := range r.Files {
		m.Files = append(m.Files, ManifestFile{f.Table, f.Key, f.Rows, f.Size, f.SHA256})
	}
	body, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	_, err = b.put(ctx, r.Manifest, append(body, '\n'), condition{absent: true}, r.Token)
	if err == nil {
		return nil
	}
	// There is one, or the answer was lost: whose it is says its token.
	_, o, ok, gerr := b.get(ctx, r.Manifest)
	switch {
	case gerr != nil:
		return gerr
	case ok && o.token == r.Token:
		return nil
	case ok:
		return errorf(sink.ErrConfig, "the manifest %s is there and is not what was prepared under this name: somebody else wrote it. Move it away, and the commit goes on", brief(r.Manifest))
	}
	return err
}

func parseManifest(body []byte) (*Manifest, error) {
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if m.Format != manifestVersion {
		return nil, fmt.Errorf("it is in version %d of the format, and this release reads version %d", m.Format, manifestVersion)
	}
	for _, f := range m.Files {
		if f.Key == "" || f.SHA256 == "" || f.Size < 0 || f.Rows < 0 {
			return nil, errors.New("it is damaged: a file has no name, size or hash")
		}
	}
	return m, nil
}
