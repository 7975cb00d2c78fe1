package killtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// subject is a topic, the bridge that reads it and the table that it writes.
type subject struct {
	kind    string // keyed (upsert), append or debezium
	keyed   bool   // the table has a key: all but append
	mode    string // of the sink; "" is in-transaction
	clean   bool   // no message is bad: only Postgres refuses what refusing says
	brokers string
	topic   string // and the bridge's name, which is its group
	ddl     string
	file    string // that holds ddl
	to      string // connection string of Postgres
	schema  string // of the table
	own     string // schema of the bridge's own tables
	into    string // the table

	r     *rand.Rand // of the test's goroutine
	truth *truth
	pool  *pgxpool.Pool
	adm   *kadm.Client

	// Of the writers.
	sizes  chan int
	wait   sync.WaitGroup
	broken context.Context // ends with the error of a writer
	hands  []*writer
}

const keyedDDL = `CREATE TABLE accounts (
  region STRING NOT NULL,
  id BIGINT NOT NULL,
  seq BIGINT,
  amount DECIMAL(12, 2),
  note STRING,
  ` + "`at`" + ` TIMESTAMP(3),
  PRIMARY KEY (region, id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'key.format' = 'json',
  'value.format' = 'json',
  `

const debeziumDDL = `CREATE TABLE accounts (
  region STRING NOT NULL,
  id BIGINT NOT NULL,
  seq BIGINT,
  amount DECIMAL(12, 2),
  note STRING,
  ` + "`at`" + ` TIMESTAMP(3),
  PRIMARY KEY (region, id) NOT ENFORCED
) WITH (
  'connector' = 'kafka',
  'scan.startup.mode' = 'earliest-offset',
  'key.format' = 'json',
  'key.fields' = 'region;id',
  'value.format' = 'debezium-json',
  `

const appendDDL = `CREATE TABLE events (
  part INT METADATA FROM 'partition' VIRTUAL,
  off BIGINT METADATA FROM 'offset' VIRTUAL,
  writer INT,
  n BIGINT,
  body STRING
) WITH (
  'connector' = 'kafka',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json',
  `

// A trigger sees what the final state of a table does not show: a change that took effect twice, or too late.
const keyedTable = `
CREATE TABLE %[1]s.accounts (region text NOT NULL, id bigint NOT NULL, seq bigint, amount numeric(12, 2), note text, at timestamp(3), PRIMARY KEY (region, id));
CREATE TABLE %[1]s.seen (region text, id bigint, seq bigint, PRIMARY KEY (region, id));
CREATE TABLE %[1]s.amiss (op text, region text, id bigint, was bigint, now bigint, note text);
CREATE FUNCTION %[1]s.watch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE was bigint;
BEGIN
  SELECT s.seq INTO was FROM %[1]s.seen s WHERE s.region = NEW.region AND s.id = NEW.id;
  IF was >= NEW.seq OR NEW.note = 'aborted' THEN
    INSERT INTO %[1]s.amiss VALUES (TG_OP, NEW.region, NEW.id, was, NEW.seq, NEW.note);
  END IF;
  IF was IS NULL THEN
    INSERT INTO %[1]s.seen VALUES (NEW.region, NEW.id, NEW.seq);
  ELSE
    UPDATE %[1]s.seen s SET seq = greatest(s.seq, NEW.seq) WHERE s.region = NEW.region AND s.id = NEW.id;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT OR UPDATE ON %[1]s.accounts FOR EACH ROW EXECUTE FUNCTION %[1]s.watch();`

const appendTable = `CREATE TABLE %[1]s.events (part integer, off bigint, writer integer, n bigint, body text);`

// Queries of rows in the form of record.key and record.row.
const (
	keyedRows = `SELECT region || '/' || id, concat_ws('|', seq, amount, coalesce('=' || note, 'none'), to_char(at, 'YYYY-MM-DD HH24:MI:SS.MS')) FROM %s.accounts`
	appendAll = `SELECT part || '/' || off, concat_ws('|', writer, n, coalesce('=' || body, 'none')) FROM %s.events`
	appendSum = `SELECT part, count(*), sum(off)::bigint, sum(n)::bigint FROM %s.events GROUP BY part`
)

// newSubject makes topic, table and writers, which wait for feed.
func newSubject(t *testing.T, w *world, keyed bool, seed uint64) *subject {
	t.Helper()
	if keyed {
		return newSubjectOf(t, w, "keyed", seed)
	}
	return newSubjectOf(t, w, "append", seed)
}

func newSubjectOf(t *testing.T, w *world, kind string, seed uint64) *subject {
	t.Helper()
	head, tables, keyed := appendDDL, appendTable+fmt.Sprintf(refusing, "%[1]s", "events", "body"), false
	switch kind {
	case "keyed":
		head, tables, keyed = keyedDDL, keyedTable+fmt.Sprintf(refusing, "%[1]s", "accounts", "note"), true
	case "debezium":
		head, tables, keyed = debeziumDDL, keyedTable+fmt.Sprintf(refusing, "%[1]s", "accounts", "note"), true
	}
	name := w.name + "_" + kind
	s := &subject{kind: kind, keyed: keyed, brokers: w.brokers, to: w.to, topic: name, schema: name, own: name + "_own", truth: newTruth(),
		r: rand.New(rand.NewPCG(seed, 100)), into: name + ".events"}
	if keyed {
		s.r, s.into = rand.New(rand.NewPCG(seed, 101)), name+".accounts"
	}
	s.declare(t, head, w.session, w.rebalance)

	ctx := t.Context()
	var err error
	if s.pool, err = pgxpool.New(ctx, s.to); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	t.Cleanup(func() {
		for _, schema := range []string{s.schema, s.own} {
			if _, err := s.pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := s.pool.Exec(ctx, fmt.Sprintf("CREATE SCHEMA %[1]s; "+tables, s.schema)); err != nil {
		t.Fatal(err)
	}
	s.makeTopic(t)
	s.startWriters(t, seed)
	return s
}

// declare writes the CREATE TABLE into a file.
func (s *subject) declare(t *testing.T, head string, session, rebalance time.Duration) {
	t.Helper()
	s.ddl = head + fmt.Sprintf(`'topic' = '%s',
  'properties.bootstrap.servers' = '%s',
  'properties.session.timeout.ms' = '%d',
  'properties.heartbeat.interval.ms' = '300',
  'properties.max.poll.interval.ms' = '%d'
)`, s.topic, s.brokers, session.Milliseconds(), rebalance.Milliseconds())
	s.file = filepath.Join(t.TempDir(), s.kind+".sql")
	if err := os.WriteFile(s.file, []byte(s.ddl), 0o644); err != nil {
		t.Fatal(err)
	}
}

// makeTopic makes the topic, and waits until it is there.
func (s *subject) makeTopic(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s.adm = kadm.NewClient(cl)
	if _, err := s.adm.CreateTopic(ctx, partitions, 1, nil, s.topic); err != nil {
		t.Fatal(err)
	}
	// A topic that was just made is not known everywhere at once.
	for limit := time.Now().Add(patience); ; {
		ends, err := s.adm.ListEndOffsets(ctx, s.topic)
		if err == nil && ends.Error() == nil && len(ends[s.topic]) == partitions {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("topic %s was made and is not there: %v, %v", s.topic, err, ends.Error())
		}
	}
	t.Cleanup(func() {
		if _, err := s.adm.DeleteTopic(context.Background(), s.topic); err != nil {
			t.Error(err)
		}
	})
}

func (s *subject) startWriters(t *testing.T, seed uint64) {
	t.Helper()
	s.sizes = make(chan int, 1<<16)
	ctx, broke := context.WithCancelCause(t.Context())
	s.broken = ctx
	for i := range writers {
		w, err := newWriter(s, i, seed)
		if err != nil {
			t.Fatal(err)
		}
		s.hands = append(s.hands, w)
		s.wait.Go(func() {
			if err := w.run(ctx, s.sizes); err != nil {
				broke(err)
			}
		})
	}
	t.Cleanup(func() {
		broke(nil)
		s.wait.Wait()
		for _, w := range s.hands {
			w.cl.Close()
		}
	})
}

// feed has the writers write about n records more; it does not wait for them.
func (s *subject) feed(n int) {
	for n > 0 {
		size := 5 + s.r.IntN(60)
		s.sizes <- size
		n -= size
	}
}

// finish has the writers write what is left to so many changes, and ends them.
func (s *subject) finish(ctx context.Context, changes int) error {
	close(s.sizes)
	s.wait.Wait()
	for s.truth.changes() < changes && s.broken.Err() == nil {
		if err := s.hands[0].transaction(ctx, 50); err != nil {
			return err
		}
	}
	return context.Cause(s.broken)
}

// snapshot is what Postgres holds at one moment.
type snapshot struct {
	at   map[int32]int64
	rows [][2]string     // keyed, or all
	sums map[int32]tally // not keyed

	letters map[place]string
}

// look takes a snapshot, of all rows if all is set, and makes sure that it is what has to be there for its positions.
func (s *subject) look(ctx context.Context, all bool) (moved int, d difference, err error) {
	var snap snapshot
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if snap.at, err = s.positions(ctx, tx); err != nil {
			return err
		}
		if snap.letters, err = s.letters(ctx, tx); err != nil {
			return err
		}
		switch {
		case s.keyed:
			snap.rows, err = rowsOf(ctx, tx, fmt.Sprintf(keyedRows, s.schema))
		case all:
			snap.rows, err = rowsOf(ctx, tx, fmt.Sprintf(appendAll, s.schema))
		default:
			snap.sums, err = s.sums(ctx, tx)
		}
		return err
	})
	if err != nil {
		return 0, d, err
	}
	if moved, err = s.truth.advance(snap.at); err != nil {
		return 0, d, err
	}
	if err := s.truth.compareLetters(snap.letters); err != nil {
		return moved, d, fmt.Errorf("at the positions %v: %w", snap.at, err)
	}
	if s.keyed || all {
		if d = s.truth.compare(snap.rows); !d.none() {
			return moved, d, fmt.Errorf("at the positions %v: %s", snap.at, d)
		}
	} else if want := s.truth.counted(); !maps.Equal(want, snap.sums) {
		return moved, d, fmt.Errorf("at the positions %v: the rows of each partition (count, sum of offsets, sum of numbers) are %v, not %v", snap.at, snap.sums, want)
	}
	if s.keyed {
		amiss, err := s.amiss(ctx)
		if err != nil {
			return moved, d, err
		}
		if len(amiss) > 0 {
			return moved, d, fmt.Errorf("%d rows did not move forward: %s", len(amiss), strings.Join(amiss[:min(5, len(amiss))], "; "))
		}
	}
	return moved, d, nil
}

// positions returns what the bridge has stored.
func (s *subject) positions(ctx context.Context, tx pgx.Tx) (map[int32]int64, error) {
	out := map[int32]int64{}
	if made, err := s.made(ctx, tx); err != nil || !made {
		return out, err // the first bridges die before there is a store
	}
	if s.mode != "" {
		return s.committedPositions(ctx, tx)
	}
	rows, err := tx.Query(ctx, "SELECT partition, next_offset FROM "+s.own+".position WHERE bridge = $1 AND topic = $2 AND next_offset IS NOT NULL", s.topic, s.topic)
	if err != nil {
		return nil, err
	}
	var p int32
	var at int64
	_, err = pgx.ForEachRow(rows, []any{&p, &at}, func() error {
		out[p] = at
		return nil
	})
	return out, err
}

// ahead reports that the stored positions are beyond those of the last look.
func (s *subject) ahead(ctx context.Context) (yes bool, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		to, err := s.positions(ctx, tx)
		s.truth.mu.Lock()
		defer s.truth.mu.Unlock()
		for p, at := range to {
			yes = yes || at > s.truth.at[p]
		}
		return err
	})
	return yes, err
}

// made reports that a bridge has made its store.
func (s *subject) made(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (yes bool, err error) {
	last := ".position"
	if s.mode != "" {
		last = ".fence" // of a sink that leaves receipts, which is made after the store
	}
	err = q.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL", s.own+".position", s.own+last).Scan(&yes)
	return yes, err
}

func rowsOf(ctx context.Context, tx pgx.Tx, query string) ([][2]string, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r [2]string, err error) {
		err = row.Scan(&r[0], &r[1])
		return r, err
	})
}

func (s *subject) sums(ctx context.Context, tx pgx.Tx) (map[int32]tally, error) {
	rows, err := tx.Query(ctx, fmt.Sprintf(appendSum, s.schema))
	if err != nil {
		return nil, err
	}
	out := map[int32]tally{}
	var p int32
	var t tally
	_, err = pgx.ForEachRow(rows, []any{&p, &t.Count, &t.Offsets, &t.Numbers}, func() error {
		out[p] = t
		return nil
	})
	return out, err
}

// amiss returns the rows that did not move forward.
func (s *subject) amiss(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, "SELECT x::text FROM "+s.schema+".amiss x")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// owners returns how many partitions each process owns, by its number; with saved, only those that it has saved since it owns them.
func (s *subject) owners(ctx context.Context, saved bool) (map[int]int, error) {
	out := map[int]int{}
	if made, err := s.made(ctx, s.pool); err != nil || !made {
		return out, err
	}
	rows, err := s.pool.Query(ctx, fmt.Sprintf(`SELECT g.owner FROM %[1]s.position p JOIN %[1]s.generation g ON g.bridge = p.bridge AND g.id = p.owner
		WHERE p.bridge = $1 AND (NOT $2 OR p.generation = p.owner)`, s.own), s.topic, saved)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, o := range all {
		if pid, err := strconv.Atoi(o[strings.LastIndexByte(o, '/')+1:]); err == nil {
			out[pid]++
		}
	}
	return out, err
}

// ends compares the stored positions with the last stable offsets.
func (s *subject) ends(ctx context.Context) error {
	lso, err := s.adm.ListCommittedOffsets(ctx, s.topic)
	if err == nil {
		err = lso.Error()
	}
	if err != nil {
		return err
	}
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	var wrong []error
	for p := range int32(partitions) {
		o, ok := lso.Lookup(s.topic, p)
		if !ok || o.Offset == 0 || o.Offset != s.truth.at[p] {
			wrong = append(wrong, fmt.Errorf("partition %d: the stored position is %d, the last stable offset %d", p, s.truth.at[p], o.Offset))
		}
	}
	return errors.Join(wrong...)
}
