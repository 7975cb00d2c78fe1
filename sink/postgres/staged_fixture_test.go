package postgres_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/jackc/pgx/v5"
)

// stagedRow is a row of the staging table.
type stagedRow struct {
	Number    int      `json:"number"`
	Statement string   `json:"statement"`
	Params    [][]byte `json:"params"`
}

// stagedDigest is the digest of a receipt, as its format is: of all chunks, each part behind its length.
func stagedDigest(rows []stagedRow) []byte {
	var b bytes.Buffer
	length := func(n int) { b.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	for _, r := range rows {
		if r.Number == 0 {
			continue
		}
		length(len(r.Statement))
		b.WriteString(r.Statement)
		length(len(r.Params))
		for _, p := range r.Params {
			length(len(p))
			b.Write(p)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	return sum[:]
}

// A checkpoint that an older release staged is merged by this one: deletes, rows, a column that was not sent, a dead letter. The fixture is what
// version 1 wrote, with SCHEMA for the schema of the table; it is not written anew when the sink stages in another way.
func TestStaged_Fixture(t *testing.T) {
	e := newEnv(t)
	tb := e.keyed()
	a := e.writer(e.pool(nil), e.mode(postgres.Staged), tb)
	a.put(a.change(changelog.Insert, num(1), str("one")), a.change(changelog.Insert, num(2), str("two")), a.change(changelog.Insert, num(3), str("three")))
	file := filepath.Join("testdata", "staged-v1.json")
	if *updateGolden {
		gone := a.change(changelog.Delete, num(1), changelog.Value{})
		gone.KeyOnly = true
		if err := a.write(gone, a.change(changelog.UpdateAfter, num(4), str("four")), a.change(changelog.UpdateAfter, num(2), changelog.UnchangedValue())); err != nil {
			t.Fatal(err)
		}
		letter := sink.DeadLetter{Partition: part0, Offset: 99, Class: "data", Error: "bad", Key: []byte("k"), Changes: 1, Headers: []changelog.Header{{Key: "h", Value: []byte{1}}}}
		if err := a.c.(sink.DeadLetterKeeper).WriteDeadLetters(t.Context(), []sink.DeadLetter{letter}); err != nil {
			t.Fatal(err)
		}
		if err := a.prepare(); err != nil {
			t.Fatal(err)
		}
		got, err := e.admin.Query(t.Context(), "SELECT number, replace(statement, $1, 'SCHEMA'), params FROM "+e.own+".staging ORDER BY number", e.schema)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := pgx.CollectRows(got, pgx.RowToStructByPos[stagedRow])
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(rows, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := a.c.Abort(t.Context(), a.receipt); err != nil {
			t.Fatal(err)
		}
		a.acquire()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []stagedRow
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		r := &rows[i]
		if r.Params == nil {
			r.Params = [][]byte{}
		}
		r.Statement = strings.ReplaceAll(r.Statement, "SCHEMA", e.schema)
		e.exec("INSERT INTO "+e.own+".staging (bridge, sink, generation, checkpoint, number, statement, params) VALUES ('bridge', 'target', $1, 7, $2, $3, $4)",
			int64(a.claim.Generation.ID), r.Number, r.Statement, r.Params)
	}
	data, err := json.Marshal(map[string]any{"mode": "staged", "bridge": "bridge", "changes": 4, "chunks": len(rows) - 1, "digest": stagedDigest(rows)})
	if err != nil {
		t.Fatal(err)
	}
	at := []changelog.Position{{Partition: part0, Offset: 3, LeaderEpoch: -1}}
	receipt := sink.Committable{Sink: "target", Generation: a.claim.Generation.ID, Checkpoint: 7, Version: 1, Data: data, From: at, To: at}
	for range 2 {
		if err := a.c.Commit(t.Context(), receipt); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(e.all("SELECT * FROM kv"), " "); got != "(2,two) (3,three) (4,four)" {
			t.Errorf("the table is %s", got)
		}
		if got := e.one("SELECT format('%s %s %s', count(*), max(message_offset), max(checkpoint)) FROM " + e.own + ".dead_letter"); got != "1 99 7" {
			t.Errorf("letters: %s", got)
		}
	}
	// Altered on its way, it is lost and not half of it merged.
	receipt.Checkpoint = 8
	for _, r := range rows[:len(rows)-1] {
		e.exec("INSERT INTO "+e.own+".staging (bridge, sink, generation, checkpoint, number, statement, params) VALUES ('bridge', 'target', $1, 8, $2, $3, $4)",
			int64(a.claim.Generation.ID), r.Number, r.Statement, r.Params)
	}
	if err := a.c.Commit(t.Context(), receipt); sink.ClassOf(err) != sink.ErrLost || !strings.Contains(err.Error(), "altered") {
		t.Errorf("Commit of what was altered: %v", err)
	}
}
