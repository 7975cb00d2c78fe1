package killtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Some messages are bad: they cannot be decoded, or Postgres refuses their rows, either at once or not before COMMIT. Each has a key of its own, so
// that no later change makes it void before Postgres looks at it. All of them, and nothing else, have to be dead letters.

// The reasons of bad messages, as the column class of the dead letters has them.
const (
	undecodable = "data"
	refused     = "rejected"
)

// How many in 10,000 messages are bad in which way. Each that is refused has a checkpoint done again, each that is refused at COMMIT about a
// dozen of them: with many more the writers would be faster than any bridge.
const (
	undecodables = 40
	refusals     = 5
	lateRefusals = 1
)

// refusing are the constraints that refuse what refuse and refuseLate say.
const refusing = `
ALTER TABLE %[1]s.%[2]s ADD CHECK (%[3]s <> 'refused');
CREATE FUNCTION %[1]s.late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'refused at COMMIT' USING ERRCODE = 'check_violation';
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON %[1]s.%[2]s DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.%[3]s = 'refused late') EXECUTE FUNCTION %[1]s.late();`

// bad returns a bad message now and then, and its class; nil otherwise.
func (w *writer) bad() (*kgo.Record, string) {
	if w.s.clean {
		return nil, ""
	}
	text, class := "", refused
	switch n := w.r.IntN(10_000); {
	case n < undecodables:
		class = undecodable
	case n < undecodables+refusals:
		text = "refused"
	case n < undecodables+refusals+lateRefusals:
		text = "refused late"
	default:
		return nil, ""
	}
	w.seq++
	// The regions of good rows begin with r.
	region, id := fmt.Sprintf("bad%d", w.number), w.seq
	var value []byte
	switch w.s.kind {
	case "keyed", "debezium":
		value = fmt.Appendf(nil, `{"region":%q,"id":%d,"seq":%d,"amount":1.00,"note":%q,"at":"2020-01-01 00:00:00.000"}`, region, id, w.seq, text)
		if w.s.kind == "debezium" {
			value = fmt.Appendf(nil, `{"before":null,"after":%s,"op":"c"}`, value)
		}
	default:
		value = fmt.Appendf(nil, `{"writer":%d,"n":%d,"body":%q}`, w.number, w.seq, text)
	}
	if class == undecodable {
		value = value[:len(value)-3]
	}
	if w.s.kind == "append" {
		return &kgo.Record{Value: value, Partition: w.r.Int32N(partitions)}, class
	}
	return keyed(region, id, value), class
}

// place names a message.
type place struct {
	partition int32
	offset    int64
}

// letters returns the dead letters, and how often each is there.
func (s *subject) letters(ctx context.Context, tx pgx.Tx) (map[place]string, error) {
	out := map[place]string{}
	if made, err := s.made(ctx, tx); err != nil || !made {
		return out, err
	}
	rows, err := tx.Query(ctx, "SELECT partition, message_offset, string_agg(class, '+') FROM "+s.own+".dead_letter WHERE bridge = $1 AND topic = $1 GROUP BY 1, 2", s.topic)
	if err != nil {
		return nil, err
	}
	var p place
	var classes string
	_, err = pgx.ForEachRow(rows, []any{&p.partition, &p.offset, &classes}, func() error {
		out[p] = classes
		return nil
	})
	return out, err
}

// compareLetters compares dead letters with the bad messages below the positions.
func (w *truth) compareLetters(found map[place]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.Equal(w.letters, found) {
		return nil
	}
	var wrong []string
	for p, class := range w.letters {
		if found[p] != class {
			wrong = append(wrong, fmt.Sprintf("%d/%d is %q, not %q", p.partition, p.offset, found[p], class))
		}
	}
	for p, class := range found {
		if w.letters[p] == "" {
			wrong = append(wrong, fmt.Sprintf("%d/%d is %q, and is no bad message", p.partition, p.offset, class))
		}
	}
	slices.Sort(wrong)
	return fmt.Errorf("%d dead letters, and %d were expected: %s", len(found), len(w.letters), strings.Join(wrong[:min(5, len(wrong))], "; "))
}
