package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// ReceiptVersion is the version of the receipts ([sink.Committable].Data) that the modes Prepared and Staged leave. It rises with a change
// that an older program could misread; what older versions wrote stays readable.
const ReceiptVersion = 1

// receipt is the Data of a committable, as JSON: all that a process needs, beside the fields of the committable, to commit or abort.
type receipt struct {
	Mode    string `json:"mode"`
	Bridge  string `json:"bridge"`
	Gid     string `json:"gid,omitempty"` // Prepared: the name of the prepared transaction
	Changes int    `json:"changes"`       // and dead letters, for people

	Chunks int    `json:"chunks,omitempty"` // Staged: how many chunks there are
	Digest []byte `json:"digest,omitempty"` // of all of them, SHA-256
	Hook   bool   `json:"hook,omitempty"`   // Options.InCheckpoint has to be called
}

// committable makes a receipt of the current checkpoint.
func (c *committer) committable(cut sink.Cut, r receipt) (sink.Committable, error) {
	r.Mode, r.Bridge, r.Changes = c.s.o.Mode.String(), c.lane.Bridge, c.rows
	data, err := json.Marshal(r)
	return sink.Committable{Sink: c.lane.Sink, Generation: cut.Generation.ID, Checkpoint: cut.Checkpoint, Version: ReceiptVersion,
		Data: data, From: cut.From, To: cut.To}, err
}

// work is prepared work as a receipt names it.
type prepared struct {
	writer
	receipt
	mode Mode
	cp   sink.CheckpointID
	of   sink.Committable
}

// readReceipt reads what this or an older release wrote, and nothing else: it may have been restored by hand, or be another sink's.
func readReceipt(of sink.Committable) (prepared, error) {
	p := prepared{cp: of.Checkpoint, of: of}
	if of.Version != ReceiptVersion {
		return p, configf("the receipt of checkpoint %d.%d has format version %d, this program reads %d: use the program that wrote it", of.Generation, of.Checkpoint, of.Version, ReceiptVersion)
	}
	d := json.NewDecoder(bytes.NewReader(of.Data))
	d.DisallowUnknownFields()
	err := d.Decode(&p.receipt)
	if err == nil {
		p.mode, err = ParseMode(p.receipt.Mode)
	}
	if err == nil && (p.mode == InTransaction || p.mode == Auto || p.receipt.Bridge == "" || of.Generation <= 0 || of.Checkpoint <= 0 || p.Chunks < 0) {
		err = errors.New("it names no work")
	}
	if err == nil && p.mode == Prepared {
		if gen, cp, ok := gidNumbers(p.Gid); !ok || gen != of.Generation || cp != of.Checkpoint {
			err = errors.New("its prepared transaction is another checkpoint's")
		}
	}
	if err != nil {
		return p, configf("the receipt of checkpoint %d.%d is none of this sink (it was altered, or is another sink's): %w", of.Generation, of.Checkpoint, err)
	}
	p.writer = writer{p.receipt.Bridge, of.Sink, of.Generation}
	return p, nil
}

// finish makes prepared work visible, of whichever mode it is.
func (c *committer) finish(ctx context.Context, of sink.Committable) error {
	p, err := c.mine(of)
	if err != nil {
		return err
	}
	if p.mode == Staged {
		if c.apply.fresh == nil {
			c.apply.fresh = make(map[string]*freshness)
		}
		err := c.s.merge(ctx, p, &merger{fresh: c.apply.fresh, kept: c.kept.match(p)})
		if err == nil && c.kept != nil && c.kept.cp == p.cp {
			clear(c.apply.free)
			c.apply.free = c.apply.free[:0]
			c.apply.takeBack(c.kept.chunks)
			c.kept = nil
		}
		return err
	}
	return c.s.commitPrepared(ctx, p)
}

// undo takes prepared work away.
func (c *committer) undo(ctx context.Context, of sink.Committable) error {
	p, err := c.mine(of)
	if err != nil {
		return err
	}
	if p.mode == Staged {
		return c.s.unstage(ctx, p)
	}
	return c.s.abortPrepared(ctx, p)
}

func (c *committer) mine(of sink.Committable) (prepared, error) {
	p, err := readReceipt(of)
	if err == nil && (p.bridge != c.lane.Bridge || p.sink != c.lane.Sink) {
		err = configf("the receipt is of sink %q of bridge %q, and this is sink %q of bridge %q", p.sink, p.bridge, c.lane.Sink, c.lane.Bridge)
	}
	return p, err
}

// lost says that decided work is gone, and which positions it covered. why is the proof that nothing of it is visible.
func (p prepared) lost(why string) error {
	back := ""
	for _, from := range p.of.From {
		back += fmt.Sprintf(" %s:%d:%d", from.Topic, from.Partition.Partition, from.Offset)
	}
	return &sink.Error{Class: sink.ErrLost, Position: first(p.of.From), Err: fmt.Errorf(
		"checkpoint %d.%d was decided, and its rows are lost: %s. Nothing of it is visible. Missing is %s. To read that again, let the receipt go with 'flinksink settle --yes --accept-lost', "+
			"and set the positions back with 'flinksink positions set%s'; where they are not in Postgres, positions set does both: 'flinksink positions set --accept-lost --yes%s'", p.gen, p.cp, why, ranges(p.of), back, back)}
}

func first(ps []changelog.Position) *changelog.Position {
	if len(ps) == 0 {
		return nil
	}
	at := ps[0]
	return &at
}

// ranges names what a committable covers.
func ranges(of sink.Committable) string {
	var out []string
	for i, from := range of.From {
		if i < len(of.To) && of.To[i].Offset != from.Offset {
			out = append(out, fmt.Sprintf("%s from %d to %d", from.Partition, from.Offset, of.To[i].Offset-1))
		}
	}
	if len(out) == 0 {
		return "what no position tells"
	}
	return strings.Join(out, ", ")
}
