package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
)

// modelRow is a row of the model: what a table holds that was told every change by itself.
type modelRow struct {
	v, w    changelog.Value // w is what a change may leave out
	version int64
	deleted bool
	offset  int64
}

// model applies changes one by one, in the plainest way.
type model struct {
	soft, ignore, version bool
	rows                  map[string]*modelRow
}

func (m *model) key(c changelog.Change) string {
	b := "NULL"
	if !c.Row[1].IsNull() {
		b = c.Row[1].Str()
	}
	return fmt.Sprintf("%d,%s", c.Row[0].Int(), b)
}

func (m *model) apply(c changelog.Change) {
	k := m.key(c)
	old := m.rows[k]
	if m.version && old != nil && c.Row[4].Int() < old.version {
		return
	}
	if c.Kind.Adds() {
		r := &modelRow{v: c.Row[2], w: c.Row[3], version: c.Row[4].Int(), offset: c.Offset}
		if r.w.IsUnchanged() {
			r.w = old.w
		}
		m.rows[k] = r
		return
	}
	switch {
	case m.ignore:
	case !m.soft:
		delete(m.rows, k)
	case old == nil && m.version:
		m.rows[k] = &modelRow{v: c.Row[2], w: c.Row[3], version: c.Row[4].Int(), deleted: true, offset: c.Offset}
	case old == nil, old.deleted && !m.version:
	default:
		if m.version {
			old.version = c.Row[4].Int()
		}
		old.deleted, old.offset = true, c.Offset
	}
}

func (m *model) print(deleted func(bool) string, audit bool) (out []string) {
	for k, r := range m.rows {
		line := fmt.Sprintf("%s,%s,%s,%d", k, text(r.v), text(r.w), r.version)
		if m.soft {
			line += "," + deleted(r.deleted)
		}
		if audit {
			line += fmt.Sprintf(",topic,%d", r.offset)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func text(v changelog.Value) string {
	if v.IsNull() {
		return "NULL"
	}
	return v.Str()
}

// story makes a changelog over few keys: rows that come, change, change their key, go, go twice, and come again. Every change is one that a
// source could send: an update has a row to update, and only such a one leaves a column out.
func story(r *rand.Rand, n int, versions, disorder bool) (out [][]changelog.Change) {
	type state struct{ v, w changelog.Value }
	live := make(map[string]*state)
	offset, version := int64(0), int64(10)
	value := func() changelog.Value {
		if r.IntN(4) == 0 {
			return null
		}
		return str(fmt.Sprint("v", r.IntN(5)))
	}
	change := func(kind changelog.Kind, a int, b string, s state) changelog.Change {
		ver := version
		if disorder {
			ver = version - int64(r.IntN(4))
		}
		c := changelog.Change{Partition: part0, Offset: offset, Kind: kind, Row: changelog.Row{num(int64(a)), str(b), s.v, s.w, num(ver)}}
		offset++
		return c
	}
	for len(out) < n {
		a, b := r.IntN(3), string(rune('x'+r.IntN(2)))
		k := fmt.Sprint(a, b)
		s := live[k]
		version++
		switch what := r.IntN(10); {
		case s == nil && what < 7:
			s = &state{value(), value()}
			live[k] = s
			out = append(out, []changelog.Change{change(changelog.Insert, a, b, *s)})
		case s == nil: // a delete of what is not there
			c := change(changelog.Delete, a, b, state{null, null})
			if !versions {
				c.KeyOnly = r.IntN(2) == 0
			}
			out = append(out, []changelog.Change{c})
		case what < 3:
			old := *s
			delete(live, k)
			c := change(changelog.Delete, a, b, old)
			if !versions {
				c.KeyOnly = r.IntN(2) == 0
			}
			out = append(out, []changelog.Change{c})
		case what < 5: // to another key
			a2, b2 := r.IntN(3), string(rune('x'+r.IntN(2)))
			k2 := fmt.Sprint(a2, b2)
			old := *s
			delete(live, k)
			before := change(changelog.UpdateBefore, a, b, old)
			next := &state{value(), old.w}
			live[k2] = next
			after := change(changelog.UpdateAfter, a2, b2, *next)
			if disorder {
				after.Row[4] = before.Row[4]
			}
			out = append(out, []changelog.Change{before, after})
		case what < 7 && !disorder:
			s.v = value()
			c := change(changelog.UpdateAfter, a, b, *s)
			c.Row[3] = changelog.UnchangedValue()
			out = append(out, []changelog.Change{c})
		default:
			s.v, s.w = value(), value()
			out = append(out, []changelog.Change{change(changelog.UpdateAfter, a, b, *s)})
		}
	}
	return out
}

// Whatever the shape and the mode, and wherever batches, checkpoints and restarts fall, the table is what it would be had every change come by itself.
func TestShapes_Boundaries(t *testing.T) {
	yes := func(b bool) string { return fmt.Sprint(b) }
	set := func(b bool) string { return fmt.Sprint(b) }
	shapes := []struct {
		name            string
		set             func(o *postgres.Options)
		soft, ignore    bool
		versions, audit bool
		expr            string // of the mark
		deleted         func(bool) string
	}{
		{name: "plain", set: func(o *postgres.Options) {}},
		{name: "audit", set: func(o *postgres.Options) {}, audit: true},
		{name: "skip", set: func(o *postgres.Options) { o.SkipUnchanged = true }},
		{name: "ignore", set: func(o *postgres.Options) { o.IgnoreDeletes = true }, ignore: true},
		{name: "soft", set: func(o *postgres.Options) { o.SoftDelete.Column = "gone" }, soft: true, audit: true, expr: "gone", deleted: yes},
		{name: "soft skip", set: func(o *postgres.Options) { o.SoftDelete.Column, o.SkipUnchanged = "gone", true }, soft: true, expr: "gone", deleted: yes},
		{name: "soft time", set: func(o *postgres.Options) { o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: postgres.Now} }, soft: true, audit: true, expr: "gone IS NOT NULL", deleted: set},
		{name: "soft text", set: func(o *postgres.Options) {
			o.SoftDelete = postgres.SoftDelete{Column: "gone", Deleted: `it's\gone`, Live: "here"}
		}, soft: true, audit: true, expr: "gone", deleted: func(b bool) string { return map[bool]string{true: `it's\gone`, false: "here"}[b] }},
		{name: "version ignore", set: func(o *postgres.Options) { o.Version, o.IgnoreDeletes = "version", true }, ignore: true, versions: true, audit: true},
		{name: "version soft", set: func(o *postgres.Options) { o.Version, o.SoftDelete.Column = "version", "gone" }, soft: true, versions: true, audit: true, expr: "gone", deleted: yes},
		{name: "version soft skip", set: func(o *postgres.Options) { o.Version, o.SoftDelete.Column, o.SkipUnchanged = "version", "gone", true }, soft: true, versions: true, expr: "gone", deleted: yes},
	}
	seeds := uint64(3)
	if os.Getenv("FLINKSINK_LONG") != "" {
		seeds = 20
	}
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			e := newEnv(t)
			o := e.options()
			o.CreateTable = true
			sh.set(o)
			if sh.audit {
				o.Audit = postgres.AuditColumns{Topic: "src", Offset: "off"}
			}
			p := e.pool(nil)
			tb := table(t, "shaped", "[I,UB,UA,D]", "a b", "a INT", "b STRING", "v STRING", "w STRING", "version BIGINT")
			for seed := range seeds {
				o.Mode = postgres.Mode(seed % 3)
				r := rand.New(rand.NewPCG(seed, 7))
				all := story(r, 60, sh.versions, sh.versions && seed%2 == 1)
				m := &model{soft: sh.soft, ignore: sh.ignore, version: sh.versions, rows: map[string]*modelRow{}}
				for _, cs := range all {
					for _, c := range cs {
						m.apply(c)
					}
				}
				want := m.print(sh.deleted, sh.audit)
				sizes := []int{1, 5, 60}
				if o.Mode != postgres.InTransaction && os.Getenv("FLINKSINK_LONG") == "" {
					sizes = []int{20}
				}
				for _, size := range sizes {
					e.exec("DROP TABLE IF EXISTS shaped; DROP SCHEMA IF EXISTS " + e.own + " CASCADE")
					w := e.writer(p, o, tb)
					for n := 0; n < len(all); {
						for range 1 + r.IntN(3) { // batches of a checkpoint
							var batch []changelog.Change
							for range 1 + r.IntN(size) {
								if n < len(all) {
									batch = append(batch, all[n]...)
									n++
								}
							}
							if len(batch) == 0 {
								break
							}
							w.at = batch[len(batch)-1].Offset + 1
							if err := w.write(batch...); err != nil {
								t.Fatalf("seed %d, mode %v, size %d: %v", seed, o.Mode, size, err)
							}
						}
						w.finish()
						if r.IntN(4) == 0 {
							w.acquire()
						}
					}
					got := e.shaped(sh.expr, sh.audit)
					if !slices.Equal(got, want) {
						t.Fatalf("seed %d, mode %v, batches of up to %d:\n%s\nexpected\n%s", seed, o.Mode, size, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
		})
	}
}

// shaped reads the table as the model prints it.
func (e *env) shaped(mark string, audit bool) []string {
	e.t.Helper()
	cols := []string{"a", "b", "v", "w", "version"}
	if mark != "" {
		cols = append(cols, mark)
	}
	if audit {
		cols = append(cols, "src", "off")
	}
	var parts []string
	for _, c := range cols {
		parts = append(parts, fmt.Sprintf("coalesce((%s)::text, 'NULL')", c))
	}
	out := []string{}
	rows, err := e.admin.Query(e.t.Context(), "SELECT concat_ws(',', "+strings.Join(parts, ", ")+") FROM shaped")
	if err != nil {
		e.t.Fatal(err)
	}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			e.t.Fatal(err)
		}
		out = append(out, line)
	}
	if rows.Err() != nil {
		e.t.Fatal(rows.Err())
	}
	slices.Sort(out)
	return out
}
