package bridge

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// promise is the decoder of a bridge with Options.Promise: it compares the kinds of what another one decoded with those of the plan. It does not
// change after it was made.
type promise struct {
	changelog.Decoder
	mode  changelog.Mode // of the plan
	kinds changelog.Mode // that may be read
}

// promised returns in with a decoder that holds records to the options' Promise.
func promised(name string, in Input, o *Options) (Input, error) {
	if o == nil || o.Promise == 0 || in.Decoder == nil || in.Decoder.Table() == nil {
		return in, nil
	}
	t := in.Decoder.Table()
	var err error
	switch {
	case o.Promise&^changelog.Retract != 0:
		err = fmt.Errorf("Options.Promise: %d is no mode: take that of the plan (explain.Report.Promise)", o.Promise)
	case o.Promise&(changelog.Append|1<<changelog.UpdateAfter) == 0:
		err = fmt.Errorf("Options.Promise is %s, which puts no row anywhere: take the mode of the plan's node before the sink", o.Promise)
	case t.Mode == changelog.Append && o.Promise != changelog.Append:
		err = fmt.Errorf("Options.Promise is %s, and the topic of table %s can hold inserts only: the plan is that of another table", o.Promise, t.Name)
	}
	if err != nil {
		return in, &sink.Error{Op: "new", Bridge: name, Class: sink.ErrConfig, Err: err}
	}
	in.Decoder = &promise{in.Decoder, o.Promise, written(o.Promise)}
	return in, nil
}

// written are the kinds that are read of a topic to which a job writes those of mode. An upsert topic has a value for a +I and a +U alike, and a null
// for a -D as for a -U, should one reach its sink; and Flink's writers of retract encodings put an update down as the old row's delete and the new
// row's insert.
func written(mode changelog.Mode) changelog.Mode {
	kinds := mode
	if mode.Contains(changelog.UpdateAfter) {
		kinds |= 1 << changelog.Insert
	}
	if mode.Contains(changelog.UpdateBefore) {
		kinds |= 1 << changelog.Delete
	}
	return kinds
}

// Decode implements [changelog.Decoder].
func (p *promise) Decode(b *changelog.Batch, r *changelog.Record) error {
	n := b.Len()
	if err := p.Decoder.Decode(b, r); err != nil {
		return err
	}
	for i := n; i < b.Len(); i++ {
		k := b.Changes[i].Kind
		if k > changelog.Delete || p.kinds.Contains(k) { // what is no kind at all is the reader's to report
			continue
		}
		b.Truncate(n)
		return &changelog.DataError{Class: changelog.UnknownOp, Partition: r.Partition, Offset: r.Offset, Err: errBroken, Reason: fmt.Sprintf("a %s, and by its plan (Options.Promise) the job writes %s: "+
			"another job writes to this topic, or the job was changed; if that is right, explain its plan again", k, p.mode)}
	}
	return nil
}

// errBroken is the cause of a DataError about a record that breaks the promise.
var errBroken = errors.New("the promise of the plan is broken")
