package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/flinksink/flinksink/sink"
)

// engine is the outer engine: it decides when there is a checkpoint and whether it counts, and keeps the state with its own. Here its durable
// memory is a file; a real one would use the database or the object store where its own state is. What it does for flinksink is all in this
// file.
type engine struct{ path string }

// record is what it keeps.
type record struct {
	Run        int               // the newest run: whatever an older one asks for is refused
	Generation sink.GenerationID // the counter that names generations
	ID         int64             // of the last checkpoint that counts
	State      []byte            // what Barrier returned for it
}

// begin starts a run. From here on no older run is given a number or has a checkpoint that counts, and only then is the state read: so the new
// run restores the newest there will ever be.
func (e *engine) begin() (record, error) {
	return e.change(func(r *record) error { r.Run++; return nil })
}

// next is for sink.NewExternal: a number that nobody was given before.
func (e *engine) next(run int) func(context.Context) (sink.GenerationID, error) {
	return func(context.Context) (sink.GenerationID, error) {
		r, err := e.change(func(r *record) error {
			if r.Run != run {
				return fmt.Errorf("run %d was replaced by run %d: %w", run, r.Run, sink.ErrFenced)
			}
			r.Generation++
			return nil
		})
		return r.Generation, err
	}
}

// decide makes a checkpoint count: state and number in one write, compared with the run. After an error that is not errReplaced nobody knows
// whether it counts; the process then ends without Complete or Abort, and the next run finds out by what it is given.
func (e *engine) decide(run int, id int64, state []byte) error {
	_, err := e.change(func(r *record) error {
		if r.Run != run {
			return errReplaced
		}
		r.ID, r.State = id, state
		return nil
	})
	return err
}

var errReplaced = errors.New("the run was replaced by a newer one")

// change alters the record as a whole. One process at a time uses the file here; several would need a lock or a compare-and-swap.
func (e *engine) change(f func(r *record) error) (record, error) {
	var r record
	b, err := os.ReadFile(e.path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil // the first start
	}
	if err != nil {
		return r, err
	}
	if err := f(&r); err != nil {
		return r, err
	}
	if b, err = json.Marshal(r); err != nil {
		return r, err
	}
	return r, replace(e.path, b)
}

// replace writes a file that is there whole or not at all.
func replace(path string, b []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
