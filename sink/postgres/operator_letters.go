package postgres

import (
	"context"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
)

// StoredLetter is a dead letter as the store holds it.
type StoredLetter struct {
	sink.DeadLetter
	Number     int64 // of the letter, rising; never used twice
	Bridge     string
	Generation sink.GenerationID // that set it aside
	Checkpoint sink.CheckpointID
	Written    time.Time
}

// DeadLetters returns the last messages that a bridge set aside, newest first, at most limit, with all their bytes; limit 0 or less is
// no limit. "" is every bridge. A store of before the first dead letter holds none.
//
// In SQL, with the default schema:
//
//	SELECT number, bridge, topic, partition, message_offset, class, column_name, error, written,
//	       convert_from(key, 'UTF8') AS key, convert_from(value, 'UTF8') AS value
//	FROM flinksink.dead_letter WHERE bridge = 'orders' ORDER BY number DESC LIMIT 20;
//
// convert_from fails on bytes that are not UTF-8; encode(value, 'escape') shows any. Nothing deletes letters by itself. Once they are dealt with:
//
//	DELETE FROM flinksink.dead_letter WHERE bridge = 'orders' AND number <= 4711;
func (st *Store) DeadLetters(ctx context.Context, bridge string, limit int) ([]StoredLetter, error) {
	out, err := st.s.readLetters(ctx, bridge, limit)
	if err != nil {
		return nil, st.fail("read", bridge, lift(err))
	}
	return out, nil
}

func (s *Sink) readLetters(ctx context.Context, bridge string, limit int) ([]StoredLetter, error) {
	exists, err := s.hasTable(ctx, s.pool, "dead_letter")
	if err != nil || !exists {
		return nil, err
	}
	var most *int
	if limit > 0 {
		most = &limit
	}
	rows, err := s.pool.Query(ctx, `SELECT number, bridge, generation, checkpoint, topic, partition, message_offset, change_index, column_name, class, error,
		message_time, key, value, header_keys, header_values, changes, written
		FROM `+s.store.letter+` WHERE $1 = '' OR bridge = $1 ORDER BY number DESC LIMIT $2::bigint`, bridge, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (StoredLetter, error) {
		var l StoredLetter
		var at *time.Time
		var keys, values [][]byte
		var changes int64
		err := row.Scan(&l.Number, &l.Bridge, &l.Generation, &l.Checkpoint, &l.Topic, &l.Partition.Partition, &l.Offset, &l.Index, &l.Column, &l.Class, &l.Error,
			&at, &l.Key, &l.Value, &keys, &values, &changes, &l.Written)
		if at != nil {
			l.Timestamp = *at
		}
		l.Changes = int(changes)
		for i := range min(len(keys), len(values)) {
			l.Headers = append(l.Headers, changelog.Header{Key: string(keys[i]), Value: values[i]})
		}
		return l, err
	})
}
