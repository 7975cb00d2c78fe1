package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink/postgres"
)

// told is a change of a history, and the table that it is of.
type told struct {
	table  *changelog.Table
	change changelog.Change
}

// past is a history of two tables that are valid at the end of each of its deeds, and often not in the midst of one.
type past struct {
	r        *rand.Rand
	kv, tree *changelog.Table
	values   map[int64]int64 // of kv: the unique value of a key
	parents  map[int64]int64 // of tree: the parent of a key, 0: none
}

func (p *past) set(k, u int64) told {
	p.values[k] = u
	return told{p.kv, changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), num(u)}}}
}

func (p *past) unset(k int64) told {
	delete(p.values, k)
	return told{p.kv, changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: changelog.Row{num(k), null}}}
}

func (p *past) put(k, parent int64) told {
	p.parents[k] = parent
	c := changelog.Change{Kind: changelog.UpdateAfter, Row: changelog.Row{num(k), null}}
	if parent > 0 {
		c.Row[1] = num(parent)
	}
	return told{p.tree, c}
}

func (p *past) cut(k int64) told {
	delete(p.parents, k)
	return told{p.tree, changelog.Change{Kind: changelog.Delete, KeyOnly: true, Row: changelog.Row{num(k), null}}}
}

// free is a key that m does not have.
func (p *past) free(m map[int64]int64) int64 {
	for {
		if k := 1 + p.r.Int64N(40); !hasKey(m, k) {
			return k
		}
	}
}

func hasKey(m map[int64]int64, k int64) bool { _, has := m[k]; return has }

// any is a key of m, which has some.
func (p *past) any(m map[int64]int64) int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys[p.r.IntN(len(keys))]
}

// deed is something that an application does in one transaction: swap values, take over that of a row that goes, put a child before its parent, take a
// parent away before its children find another.
func (p *past) deed() (out []told) {
	value := func() int64 {
		for {
			u := 100 + p.r.Int64N(60)
			used := false
			for _, v := range p.values {
				used = used || v == u
			}
			if !used {
				return u
			}
		}
	}
	switch what := p.r.IntN(7); {
	case len(p.values) < 4 || what == 0 && len(p.values) < 20:
		return append(out, p.set(p.free(p.values), value()))
	case len(p.parents) < 4 || what == 1 && len(p.parents) < 20:
		child := p.free(p.parents)
		p.parents[child] = 0
		parent := p.free(p.parents)
		return append(out, p.put(child, parent), p.put(parent, 0))
	case what <= 2: // a ring
		a, b, c := p.any(p.values), p.any(p.values), p.any(p.values)
		was := []int64{p.values[a], p.values[b], p.values[c]}
		if a == b || b == c || a == c {
			return append(out, p.set(a, value()))
		}
		return append(out, p.set(a, was[1]), p.set(b, was[2]), p.set(c, was[0]))
	case what == 3: // of two
		a, b := p.any(p.values), p.any(p.values)
		was := p.values[a]
		return append(out, p.set(a, p.values[b]), p.set(b, was))
	case what == 4: // from one that goes
		gone := p.any(p.values)
		u := p.values[gone]
		heir := p.any(p.values)
		if heir == gone {
			return append(out, p.unset(gone))
		}
		return append(out, p.set(heir, u), p.unset(gone))
	case what == 5:
		gone := p.any(p.parents)
		out = append(out, p.cut(gone))
		for k := range int64(41) {
			if parent, has := p.parents[k]; has && parent == gone {
				out = append(out, p.put(k, 0))
			}
		}
		return out
	}
	return append(out, p.put(p.any(p.parents), p.any(p.parents)))
}

func (p *past) rows() string {
	var kv, tree []string
	for k, u := range p.values {
		kv = append(kv, fmt.Sprintf("(%d,%d)", k, u))
	}
	for k, parent := range p.parents {
		if parent == 0 {
			tree = append(tree, fmt.Sprintf("(%d,)", k))
		} else {
			tree = append(tree, fmt.Sprintf("(%d,%d)", k, parent))
		}
	}
	slices.Sort(kv)
	slices.Sort(tree)
	return fmt.Sprint(kv, tree)
}

// Whatever rows of one checkpoint do to one another, and wherever its batches end, the table holds what a valid source holds at its end; in every mode, and no
// checkpoint is refused.
func TestWaits_Histories(t *testing.T) {
	everyMode(t, func(t *testing.T, e *env, o *postgres.Options) {
		e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, u bigint UNIQUE); CREATE TABLE tree (k bigint PRIMARY KEY, parent bigint REFERENCES tree)")
		kv, tree := table(t, "kv", upsert, "k", "k BIGINT NOT NULL", "u BIGINT"), table(t, "tree", upsert, "k", "k BIGINT NOT NULL", "parent BIGINT")
		w := e.drive(o, kv, tree)
		for seed := range uint64(4) {
			p := &past{r: rand.New(rand.NewPCG(seed, 3)), kv: kv, tree: tree, values: map[int64]int64{}, parents: map[int64]int64{}}
			e.exec("TRUNCATE kv, tree")
			for cp := range 3 {
				var all []told
				for range 12 {
					all = append(all, p.deed()...)
				}
				for n := 0; n < len(all); {
					end := n + 1
					for p.r.IntN(2) == 0 && end < len(all) && all[end].table == all[n].table {
						end++
					}
					var batch []changelog.Change
					for _, c := range all[n:end] {
						batch = append(batch, c.change)
					}
					w.table = all[n].table
					if err := w.write(w.place(batch...)...); err != nil {
						t.Fatalf("seed %d, checkpoint %d, change %d of %d: %v", seed, cp, n, len(all), err)
					}
					n = end
				}
				if err := w.prepare(); err != nil {
					t.Fatalf("seed %d, checkpoint %d: %v", seed, cp, err)
				}
				w.finishPrepared()
				if got, want := fmt.Sprint(e.all("SELECT * FROM kv"), e.all("SELECT * FROM tree")), p.rows(); got != want {
					t.Fatalf("seed %d, checkpoint %d:\n%s, expected\n%s", seed, cp, got, want)
				}
			}
		}
	})
}
