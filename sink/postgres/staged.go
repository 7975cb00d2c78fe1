package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file is mode Staged: what becomes of a checkpoint's statements until it is decided.
//
// A chunk of rows is staged as what it is in the other modes: a statement and an array for each of its parameters. So every shape of writing
// works the same in all modes, and whoever merges needs nothing but the staging table. The rows of a checkpoint are a handful of rows there,
// found by bridge, sink, generation and checkpoint, and deleted by them.
//
// What the target refuses has to be found before the decision, for nothing can go back afterwards. Types and NULLs would be found by a
// staging table with the target's columns; unique values, foreign keys, triggers, and rows that are not there to be changed would not. So the
// statements are carried out as in the other modes, under a savepoint to which the transaction goes back before it commits: a rehearsal, with the
// same refusals that name the same changes. That doubles the work, and is left out where there is nothing that the server could refuse: see
// target.accepts. What remains is what others do to the target between Prepare and Commit: a row of theirs that takes a unique
// value or that a foreign key needs gone, a constraint added, a column dropped. Then the merge is refused, is tried again with an alarm, and goes
// through once that is undone; [Store.Settle] can let it go.
type stage struct {
	t     *transaction
	w     writer
	plain map[*target]bool // what accepts found out: anew in each transaction, since others may alter a table while the lane runs

	chunks []chunk // that are not in the table yet
	size   int     // of chunks, in bytes
	count  int     // in the table
	digest digest  // of those
	kept   kept    // the same, for whoever merges them
	row    []byte  // of the table, as it is sent

	into map[*target]bool // what chunks are written into

	rehearsing bool // statements are carried out, under the savepoint
	later      bool // they will be, in Prepare: there were too many to hold
	whole      bool // chunks are held, however many: what is tried may be taken back
}

// chunk is a statement with its parameters.
type chunk struct {
	statement stagedStatement
	params    [][]byte
}

// stagedStatement is what is kept of a statement, as JSON.
type stagedStatement struct {
	SQL     string   `json:"sql,omitempty"`
	Then    string   `json:"then,omitempty"`
	OIDs    []uint32 `json:"oids,omitempty"`
	Copy    string   `json:"copy,omitempty"`    // for rows of which none is there
	Rows    int      `json:"rows,omitempty"`    // of Copy
	Missing string   `json:"missing,omitempty"` // with the parameters Keys alone
	Keys    []int    `json:"keys,omitempty"`
	Takes   int      `json:"takes,omitempty"` // how many rows it takes away; see takeOne
	Letters bool     `json:"letters,omitempty"`
	Parks   bool     `json:"parks,omitempty"`   // it returns the rows that it moved; see parking
	Written string   `json:"written,omitempty"` // no statement: the table in which no row may still be where one moved it
}

// stageBytes is how much waits in memory before it goes to the table; a rehearsal holds more, so that it need not be done twice.
const (
	stageBytes    = 1 << 20
	rehearseBytes = 16 << 20
)

func newStage(t *transaction, w writer) *stage {
	return &stage{t: t, w: w, plain: make(map[*target]bool), into: make(map[*target]bool), digest: newDigest()}
}

// of reports whether statements of t are to be staged. s may be nil.
func (s *stage) of(t *transaction) bool { return s != nil && s.t == t }

// put sends the parameters that fill made, or stages them, or both.
func (a *applier) put(ctx context.Context, t *transaction, tg *target, st statement, changes []changelog.Change) error {
	switch {
	case st.ignores && st.missing == "":
		a.void += len(changes)
		return nil
	case !a.stage.of(t):
		return a.send(ctx, t, tg, st, changes)
	}
	s := a.stage
	c := s.chunk(a, tg, st, len(changes))
	accepted, err := s.accepts(ctx, tg, st)
	if err != nil {
		return err
	}
	if !s.later && (s.rehearsing || !accepted) {
		if err := s.rehearse(ctx); err != nil {
			return err
		}
		if err := a.send(ctx, t, tg, st, changes); err != nil {
			return err
		}
	}
	if st.ignores {
		return nil
	}
	s.add(c)
	s.into[tg] = true
	a.handOver(len(st.columns))
	switch {
	case s.rehearsing && s.size > rehearseBytes && !s.whole:
		return s.postpone(ctx)
	case !s.rehearsing && s.size > stageBytes:
		return s.flush(ctx)
	}
	return nil
}

// held is how many chunks can be undone.
func (s *stage) held() int {
	if s == nil {
		return 0
	}
	return len(s.chunks)
}

// back forgets chunks of statements that were taken back.
func (s *stage) back(held int) {
	if s == nil || held >= len(s.chunks) {
		return
	}
	for _, c := range s.chunks[held:] {
		s.size -= c.bytes()
	}
	s.chunks = s.chunks[:held]
}

// chunk is a statement with the parameters of the applier, which are the chunk's once it is added.
func (s *stage) chunk(a *applier, tg *target, st statement, rows int) chunk {
	c := chunk{statement: stagedStatement{SQL: st.sql, Then: st.then, OIDs: st.oids, Missing: st.missing}, params: slices.Clone(a.params[:len(st.columns)])}
	if st.takes {
		c.statement.Takes = rows
	}
	c.statement.Parks = st.parks != nil
	if st.copy != "" && rows >= copyRows {
		c.statement.Copy, c.statement.Rows = st.copy, rows
	}
	if st.missing != "" {
		for _, k := range tg.keys {
			for p, i := range st.columns {
				if i == k {
					c.statement.Keys = append(c.statement.Keys, p)
				}
			}
		}
	}
	return c
}

func (c *chunk) bytes() int {
	n := len(c.statement.SQL) + len(c.statement.Then) + len(c.statement.Copy) + len(c.statement.Missing)
	for _, p := range c.params {
		n += len(p)
	}
	return n
}

func (s *stage) add(c chunk) {
	s.chunks = append(s.chunks, c)
	s.size += c.bytes()
}

// flush moves the chunks into the table, under number 0 in place of the checkpoint's, which Prepare knows.
func (s *stage) flush(ctx context.Context) error {
	if len(s.chunks) == 0 {
		return nil
	}
	statements := make([]string, len(s.chunks))
	var b pgx.Batch
	for i, c := range s.chunks {
		text, err := json.Marshal(c.statement)
		if err != nil {
			return err
		}
		statements[i] = string(text)
		s.count++
		b.Queue(stagingInsert(s.t.s.store.staging), s.w.bridge, s.w.sink, int64(s.w.gen), s.count, statements[i], c.params)
	}
	digested := make(chan struct{})
	go func() { // while the server is at work
		defer close(digested)
		for i, c := range s.chunks {
			s.digest.add(statements[i], c.params)
		}
	}()
	err := s.t.SendBatch(ctx, &b).Close()
	<-digested
	if err != nil {
		return err
	}
	s.kept.add(s.chunks, s.size)
	clear(s.chunks)
	s.chunks, s.size = s.chunks[:0], 0
	return nil
}

// rehearse begins the rehearsal, with all that was staged so far.
func (s *stage) rehearse(ctx context.Context) error {
	if s == nil || s.rehearsing {
		return nil
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if _, err := s.t.Exec(ctx, "SAVEPOINT rehearsal"); err != nil {
		return err
	}
	s.rehearsing = true
	_, err := s.t.s.play(ctx, s.t, prepared{writer: s.w}, nil, new(merger))
	return err
}

// postpone ends a rehearsal that holds too much. What follows goes to the table as it comes, and Prepare rehearses all of it at once, where a
// refusal names no change: smaller checkpoints tell.
func (s *stage) postpone(ctx context.Context) error {
	if s.rehearsing {
		if _, err := s.t.Exec(ctx, "ROLLBACK TO SAVEPOINT rehearsal; RELEASE SAVEPOINT rehearsal"); err != nil {
			return err
		}
		s.rehearsing = false
	}
	s.later = true
	return s.flush(ctx)
}

// end ends the rehearsal, so that nothing but the staged chunks is left of the transaction.
func (s *stage) end(ctx context.Context) error {
	if s.later {
		s.later = false
		// As the merge does.
		if _, err := s.t.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
			return err
		}
		if err := s.rehearse(ctx); errors.Is(err, errMergeMissing) || errors.Is(err, errMergeMoved) {
			return &sink.Error{Class: sink.ErrRejected, Err: err} // by rows that smaller checkpoints will name
		} else if err != nil {
			return err
		}
		if _, err := s.t.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
			return err
		}
	}
	if s.rehearsing {
		if _, err := s.t.Exec(ctx, "ROLLBACK TO SAVEPOINT rehearsal; RELEASE SAVEPOINT rehearsal"); err != nil {
			return err
		}
		s.rehearsing = false
	}
	return s.flush(ctx)
}

// run carries a staged chunk out.
func (c *chunk) run(ctx context.Context, t *transaction) error {
	conn := t.Conn().PgConn()
	if c.statement.Missing != "" {
		var keys [][]byte
		var oids []uint32
		for _, k := range c.statement.Keys {
			keys, oids = append(keys, c.params[k]), append(oids, c.statement.OIDs[k])
		}
		r := conn.ExecParams(ctx, c.statement.Missing, keys, oids, binaryFormat(), nil).Read()
		if r.Err != nil {
			return r.Err
		}
		if len(r.Rows) > 0 {
			return fmt.Errorf("%w: %d of them", errMergeMissing, len(r.Rows))
		}
	}
	for _, sql := range []string{c.statement.SQL, c.statement.Then} {
		if sql == "" {
			continue
		}
		r := conn.ExecParams(ctx, sql, c.params, c.statement.OIDs, binaryFormat(), nil).Read()
		if r.Err != nil {
			return r.Err
		}
		if c.statement.Takes > 0 {
			if err := c.took(r); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	errMergeMissing = errors.New("rows that some columns are to be kept of are not in the table any more")
	errMergeTaken   = errors.New("rows to take away were taken by somebody else at the same time")
)

// took reads what a statement of takeOne returns: all rows have to be found and taken.
func (c *chunk) took(r *pgconn.Result) error {
	n := 0
	for _, row := range r.Rows {
		if string(row[1]) != "1" {
			return errMergeTaken
		}
		n++
	}
	if n < c.statement.Takes {
		return fmt.Errorf("%w: %d of %d", errMergeMissing, c.statement.Takes-n, c.statement.Takes)
	}
	return nil
}

// stageCheckpoint ends the transaction of the checkpoint with everything staged, under its number.
func (c *committer) stageCheckpoint(ctx context.Context, cut sink.Cut) (sink.Committable, error) {
	hook := c.s.o.InCheckpoint != nil
	letters := 0
	for _, l := range c.letters {
		letters += len(l)
	}
	if c.rows+letters == 0 && !hook {
		return sink.Committable{}, nil
	}
	if c.tx == nil {
		t, err := c.begin(ctx)
		if err != nil {
			return sink.Committable{}, err
		}
		c.tx = t
	}
	c.rows += letters
	s := c.apply.stage
	if err := s.end(ctx); err != nil {
		return sink.Committable{}, err
	}
	for _, l := range c.letters {
		if err := s.addLetters(l); err != nil {
			return sink.Committable{}, err
		}
		if err := s.flush(ctx); err != nil {
			return sink.Committable{}, err
		}
	}
	head := stagedHead{Changes: c.rows, Counters: c.info(cut).Counters}
	for _, tg := range c.targets {
		if s.into[tg] && tg.shape != (shape{}) {
			head.Tables = append(head.Tables, tg.shaped())
		}
	}
	mark := receipt{Chunks: s.count, Digest: s.digest.sum(), Hook: hook}
	out, err := c.committable(cut, mark)
	if err != nil {
		return sink.Committable{}, err
	}
	c.tx = nil // it ends here, either way
	if err := s.seal(ctx, cut.Checkpoint, head); err != nil {
		return sink.Committable{}, err
	}
	c.kept = s.kept.of(s.w, cut.Checkpoint, mark, head)
	return out, nil
}
