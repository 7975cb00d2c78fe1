package sinktest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/flinksink/flinksink/sink"
)

// receipt is the Data of a committable of two phases, as JSON.
type receipt struct {
	Work    string `json:"work"` // "generation/checkpoint"
	Changes int    `json:"changes"`
}

const receiptVersion = 1

func (w workName) String() string { return fmt.Sprintf("%d/%d", w.generation, w.checkpoint) }

// open reads a receipt. It must name the work that the committable is stored for.
func (c *committer) open(op string, r sink.Committable) (workName, error) {
	w := workName{r.Generation, r.Checkpoint}
	if r.Version != receiptVersion {
		return w, c.fail(op, sink.ErrConfig, fmt.Errorf("a receipt of format version %d, this program reads %d: use the program that wrote it", r.Version, receiptVersion))
	}
	var data receipt
	d := json.NewDecoder(bytes.NewReader(r.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(&data); err != nil {
		return w, c.fail(op, sink.ErrConfig, fmt.Errorf("a receipt that cannot be read: %w", err))
	}
	if data.Work != w.String() {
		return w, c.fail(op, sink.ErrConfig, fmt.Errorf("the receipt of work %q under the name %q", data.Work, w))
	}
	return w, nil
}
