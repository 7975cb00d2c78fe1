package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/flinksink/flinksink/sink/sinktest"
	"github.com/jackc/pgx/v5/pgxpool"
)

func (e *env) operator() *postgres.Store {
	e.t.Helper()
	st, err := postgres.NewStore(e.pool(nil), &postgres.StoreOptions{Schema: e.own, Who: "ops@desk"})
	if err != nil {
		e.t.Fatal(err)
	}
	return st
}

// at is a move of partition 0 of the topic.
func at(from, to int64) []postgres.Move {
	return []postgres.Move{{From: from, To: changelog.Position{Partition: part0, Offset: to, LeaderEpoch: -1}}}
}

func (e *env) stored(st *postgres.Store, bridge string) sink.State {
	e.t.Helper()
	s, err := st.Read(e.t.Context(), bridge)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// The store without a sink keeps every law of a store, with receipts of another sink.
func TestLaws_Store(t *testing.T) {
	e := newEnv(t)
	h := harness(e)
	h.InTransaction, h.Rows = false, nil
	h.Connect = func(context.Context, *changelog.Table) (sinktest.Client, error) {
		var w wire
		st, err := postgres.NewStore(e.pool(w.through), &postgres.StoreOptions{Schema: e.own})
		return sinktest.Client{Store: st, Release: w.cut}, err
	}
	sinktest.Run(t, h)
}

// A move while a lane is in the middle of a checkpoint: the lane is fenced, no row of the checkpoint is there, and the next one begins
// where the operator said.
func TestSetPositions_FencesARunningLane(t *testing.T) {
	for _, phase := range []string{"idle", "written", "prepared"} {
		t.Run(phase, func(t *testing.T) {
			e := newEnv(t)
			w := e.writer(e.pool(nil), e.options(), e.keyed())
			if err := w.writeTo(10); err != nil {
				t.Fatal(err)
			}
			w.finish()
			if phase != "idle" {
				if err := w.writeTo(20); err != nil {
					t.Fatal(err)
				}
			}
			if phase == "prepared" {
				if err := w.prepare(); err != nil {
					t.Fatal(err)
				}
			}
			did, err := e.operator().SetPositions(t.Context(), "bridge", at(10, 4), "read again")
			if err != nil {
				t.Fatal(err)
			}
			if len(did.Ended) != 1 || did.Ended[0].ID != w.claim.Generation.ID || len(did.Moved) != 1 || did.Moved[0].Before.Offset != 10 || did.Moved[0].After.Offset != 4 {
				t.Errorf("%+v", did)
			}
			if phase == "idle" {
				if err := w.writeTo(20); sink.ClassOf(err) != sink.ErrFenced {
					t.Errorf("Write: %v", err)
				}
			} else if err := w.save(); sink.ClassOf(err) != sink.ErrFenced {
				t.Errorf("Save: %v", err)
			}
			if got, want := e.all("SELECT * FROM kv"), tableAfter(10); !slices.Equal(got, want) {
				t.Errorf("rows of a checkpoint that was refused: %v, want %v", got, want)
			}
			incarnation := w.claim.Incarnation
			w.acquire()
			if w.from != 4 || w.claim.Incarnation != incarnation+1 {
				t.Errorf("acquired at %d, incarnation %d", w.from, w.claim.Incarnation)
			}
			if err := w.writeTo(20); err != nil {
				t.Fatal(err)
			}
			w.finish()
			e.agrees("after it was read again")
		})
	}
}

// A move that is refused changes nothing, ends nobody, and leaves no row in the audit.
func TestSteer_RefusalsChangeNothing(t *testing.T) {
	e := newEnv(t)
	st := e.operator()
	wantConfig(t, second(st.Skip(t.Context(), "bridge", part0, 10, "")), e.own, "no bridge has stored anything")
	if got := e.one("SELECT count(*) FROM pg_namespace WHERE nspname = $1", e.own); got != "0" {
		t.Error("a refused call made tables")
	}
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	if err := w.writeTo(10); err != nil {
		t.Fatal(err)
	}
	w.finish()
	before := e.stored(st, "bridge")
	other := changelog.Partition{Topic: "topic", Partition: 1}
	for _, c := range []struct {
		name string
		call func() error
		want []string
	}{
		{"skip too early", func() error { _, err := st.Skip(t.Context(), "bridge", part0, 11, ""); return err }, []string{"topic/0 is 10", "11 was expected"}},
		{"skip again", func() error { _, err := st.Skip(t.Context(), "bridge", part0, 9, ""); return err }, []string{"topic/0 is 10", "9 was expected"}},
		{"skip below 0", func() error { _, err := st.Skip(t.Context(), "bridge", part0, -1, ""); return err }, []string{"no such offset"}},
		{"other bridge", func() error { _, err := st.Skip(t.Context(), "brigde", part0, 10, ""); return err }, []string{`no bridge "brigde"`, `["bridge"]`}},
		{"other partition", func() error { _, err := st.Skip(t.Context(), "bridge", other, 10, ""); return err }, []string{"topic/1", "it has held topic/0"}},
		{"expected other", func() error { _, err := st.SetPositions(t.Context(), "bridge", at(9, 4), ""); return err }, []string{"topic/0 is 10", "9 was expected"}},
		{"one of two", func() error {
			_, err := st.SetPositions(t.Context(), "bridge", append(at(10, 4), postgres.Move{From: postgres.AnyOffset, To: changelog.Position{Partition: other}}), "")
			return err
		}, []string{"topic/1"}},
		{"twice", func() error {
			_, err := st.SetPositions(t.Context(), "bridge", append(at(10, 4), at(10, 5)...), "")
			return err
		}, []string{"twice"}},
		{"below 0", func() error { _, err := st.SetPositions(t.Context(), "bridge", at(10, -1), ""); return err }, []string{"0 or more"}},
		{"nothing", func() error { _, err := st.SetPositions(t.Context(), "bridge", nil, ""); return err }, []string{"at least one"}},
		{"reset other", func() error {
			_, err := st.Reset(t.Context(), "bridge", []changelog.Partition{part0, other}, "")
			return err
		}, []string{"topic/1"}},
		{"reason", func() error { _, err := st.SetPositions(t.Context(), "bridge", at(10, 4), "a\x00"); return err }, []string{"NUL"}},
	} {
		t.Run(c.name, func(t *testing.T) { wantConfig(t, c.call(), append(c.want, "bridge")...) })
	}
	if after := e.stored(st, "bridge"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("before %v\nafter  %v", before, after)
	}
	if a, err := st.Audit(t.Context(), "bridge", 10); err != nil || len(a) != 0 {
		t.Errorf("audit %v, %v", a, err)
	}
	if err := w.writeTo(20); err != nil {
		t.Fatal(err)
	}
	w.finish() // nobody disturbed it
}

// Skip passes one offset, keeps the topic's identity, and gives no epoch that could look like a truncation.
func TestSkip_OneOffset(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	st := e.operator()
	p := changelog.Partition{Topic: "orders", Partition: 1}
	did, err := st.Skip(t.Context(), "orders", p, 14, "not JSON")
	if err != nil {
		t.Fatal(err)
	}
	after := did.Moved[0].After
	if after.Offset != 15 || after.LeaderEpoch != -1 || after.TopicID != did.Moved[0].Before.TopicID || after.TopicID.String() == "" {
		t.Errorf("%+v", after)
	}
	got := e.stored(st, "orders")
	if got.Positions[0].Offset != 20 || got.Positions[0].LeaderEpoch != 2 || got.Positions[1].Position != *after || got.Incarnation != 0 {
		t.Errorf("%+v", got)
	}
	wantConfig(t, second(st.Skip(t.Context(), "orders", p, 14, "")), "orders/1 is 15")
}

func second[A any](_ A, err error) error { return err }

// Who, when, what and why are in the audit, in the same transaction as the move.
func TestAudit_Rows(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	st := e.operator()
	if _, err := st.SetPositions(t.Context(), "orders", []postgres.Move{
		{From: postgres.AnyOffset, To: changelog.Position{Partition: changelog.Partition{Topic: "orders", Partition: 1}, Offset: 3, LeaderEpoch: -1}},
		{From: 20, To: changelog.Position{Partition: changelog.Partition{Topic: "orders"}, Offset: 0, LeaderEpoch: -1}}}, "again, please"); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Reset(t.Context(), "orders", nil, ""); err != nil {
		t.Fatal(err)
	}
	all, err := st.Audit(t.Context(), "orders", 10)
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	var role string
	if err := e.pool(nil).QueryRow(t.Context(), "SELECT current_user").Scan(&role); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"reset orders/0 0 none  []", "reset orders/1 3 none  []", "set orders/0 20 0 again, please [2]", "set orders/1 14 3 again, please [2]"} {
		a := all[i]
		offset := func(p *changelog.Position) string {
			if p == nil {
				return "none"
			}
			return fmt.Sprint(p.Offset)
		}
		got := fmt.Sprintf("%s %s %s %s %s %v", a.What, a.Partition, offset(a.Before), offset(a.After), a.Reason, a.Ended)
		// Rows of one call have times of their own, in any order.
		if !strings.HasPrefix(got, strings.Fields(want)[0]) || a.Who != "ops@desk" || a.Role != role || a.Bridge != "orders" || a.At.IsZero() {
			t.Errorf("%d: %s by %s (%s) for %s at %s", i, got, a.Who, a.Role, a.Bridge, a.At)
		}
		found := false
		for _, b := range all {
			found = found || fmt.Sprintf("%s %s %s %s %s %v", b.What, b.Partition, offset(b.Before), offset(b.After), b.Reason, b.Ended) == want
		}
		if !found {
			t.Errorf("%s is missing in %+v", want, all)
		}
	}
	if got := e.stored(st, "orders"); len(got.Positions) != 0 || got.Incarnation != 2 {
		t.Errorf("%+v", got)
	}
	// The audit cannot be written: then nothing is moved.
	e.exec("ALTER TABLE " + e.own + ".audit ADD CHECK (reason <> 'x')")
	if _, err := st.SetPositions(t.Context(), "orders", []postgres.Move{{From: postgres.AnyOffset, To: changelog.Position{Partition: changelog.Partition{Topic: "orders"}, Offset: 5}}}, "x"); err == nil {
		t.Error("no error")
	}
	if got := e.stored(st, "orders"); len(got.Positions) != 0 {
		t.Errorf("%+v", got)
	}
}

// What is decided and not committed has rows of before the move.
func TestSteer_RefusedWhilePending(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	st := e.operator()
	p := changelog.Partition{Topic: "orders"}
	wantConfig(t, second(st.Skip(t.Context(), "waiting", p, 20, "")), `"files"`, "wait to be committed")
	wantConfig(t, second(st.Reset(t.Context(), "waiting", nil, "")), `"files"`)
	if got := e.stored(st, "waiting"); len(got.Pending) != 1 || got.Generations[0].Ended || got.Positions[0].Offset != 20 {
		t.Errorf("%+v", got)
	}
}

// fixture makes the tables as the first release left them.
func (e *env) fixture() {
	e.t.Helper()
	text, err := os.ReadFile("testdata/store-v1.sql")
	if err != nil {
		e.t.Fatal(err)
	}
	e.exec(strings.ReplaceAll(string(text), `"SCHEMA"`, `"`+e.own+`"`))
}

// A store of the first release opens: for a sink, for operators, and for the program that made it, after operators used it.
func TestStore_OfTheFirstRelease(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	st := e.operator()
	if names, err := st.Bridges(t.Context()); err != nil || strings.Join(names, " ") != "orders waiting" {
		t.Errorf("%v, %v", names, err)
	}
	got := e.stored(st, "orders")
	if got.Format != 1 || len(got.Positions) != 2 || got.Positions[0].String() != "orders/0@20" || got.Positions[1].Counters.Superseded != 1 || len(got.Generations) != 1 {
		t.Errorf("%+v", got)
	}
	if a, err := st.Audit(t.Context(), "orders", 1); err != nil || len(a) != 0 {
		t.Errorf("audit without its table: %v, %v", a, err)
	}
	// Two operators, of two bridges, make the missing table at once.
	e.exec("DELETE FROM " + e.own + ".committable")
	var wg sync.WaitGroup
	for _, b := range []string{"orders", "waiting"} {
		wg.Go(func() {
			if _, err := st.Skip(context.Background(), b, changelog.Partition{Topic: "orders"}, 20, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v := e.one("SELECT version FROM " + e.own + ".format"); v != "1" {
		t.Errorf("version %s: the program that made this store would refuse it", v)
	}
	if _, err := e.lane(e.pool(nil), "", e.options(), e.keyed()); err != nil {
		t.Errorf("a sink: %v", err)
	}
	claim, err := st.Acquire(t.Context(), sink.AcquireRequest{Bridge: "orders", Fingerprint: got.Fingerprint, GroupGeneration: 3,
		Partitions: []changelog.Partition{{Topic: "orders"}, {Topic: "orders", Partition: 1}}})
	if err != nil || claim.Generation.ID != 3 || len(claim.Positions) != 2 || claim.Positions[0].Offset != 21 {
		t.Errorf("%+v, %v", claim, err)
	}
}

// A role that may write the old tables and make none is told what an administrator can run, and that does.
func TestAudit_NoRight(t *testing.T) {
	e := newEnv(t)
	e.fixture()
	role := e.schema + "_role"
	e.exec("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + e.own + " TO " + role + "; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + e.own + " TO " + role)
	t.Cleanup(func() { e.exec("DROP OWNED BY " + role); e.exec("DROP ROLE " + role) })
	st, err := postgres.NewStore(e.pool(func(c *pgxpool.Config) { c.ConnConfig.User = role }), &postgres.StoreOptions{Schema: e.own})
	if err != nil {
		t.Fatal(err)
	}
	skip := func() error {
		return second(st.Skip(t.Context(), "orders", changelog.Partition{Topic: "orders"}, 20, ""))
	}
	err = skip()
	wantConfig(t, err, "42501", "administrator")
	if got := e.stored(st, "orders"); got.Positions[0].Offset != 20 || got.Generations[0].Ended {
		t.Errorf("%+v", got)
	}
	_, script, _ := strings.Cut(err.Error(), "administrator run\n")
	e.exec(script)
	if err := skip(); err != nil {
		t.Fatal(err)
	}
	if who := e.one("SELECT who FROM " + e.own + ".audit"); !strings.Contains(who, "@") {
		t.Errorf("who %q", who)
	}
}
