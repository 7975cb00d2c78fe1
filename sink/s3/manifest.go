package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	Letters    []ManifestFile    `json:"letters,omitempty"`     // of messages that were set aside, without a table
	EventTimes []EventTime       `json:"event_times,omitempty"` // with Options.EventTime

	Compaction int64  `json:"-"` // of what [Compact] made: its number; Generation, Checkpoint, From and To are not set then. 0: a checkpoint
	Key        string `json:"-"` // of the object that says all this
}

// Offset is a position in a topic: the next offset to read.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// ManifestFile is one file of a checkpoint.
type ManifestFile struct {
	Table string `json:"table"`
	// Key is in the bucket, with the prefix. Its end tells the file's format and compression, which may differ from those of other files: a bridge that
	// stops may go on with other Options.
	Key    string `json:"key"`
	Rows   int64  `json:"rows"`
	Size   int64  `json:"size"` // bytes, as they are stored
	SHA256 string `json:"sha256"`
	// Folder is where the rows would be, below the prefix, of a file that [Compact] made; of others it is in Key.
	Folder string `json:"folder,omitempty"`
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
	m := Manifest{Format: manifestVersion, Bridge: r.Bridge, Sink: d.Sink, Generation: d.Generation, Checkpoint: d.Checkpoint, From: offsets(d.From), To: offsets(d.To), EventTimes: r.EventTimes}
	for _, f := range r.Files {
		file := ManifestFile{Table: f.Table, Key: f.Key, Rows: f.Rows, Size: f.Size, SHA256: f.SHA256}
		if f.Table == "" {
			m.Letters = append(m.Letters, file)
			continue
		}
		m.Files = append(m.Files, file)
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
	return m, sound(append(slices.Clip(m.Files), m.Letters...))
}

func sound(files []ManifestFile) error {
	for _, f := range files {
		if f.Key == "" || f.SHA256 == "" || f.Size < 0 || f.Rows < 0 {
			return errors.New("it is damaged: a file has no name, size or hash")
		}
	}
	return nil
}
