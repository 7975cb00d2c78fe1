package elastic_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// Where rows name their indexes, each is looked for in its own, also those that moved; what lies under a former name is extra, and other indexes that the
// pattern finds are nobody's business.
func TestVerify_NamesFromRows(t *testing.T) {
	for _, deletes := range []elastic.Deletes{elastic.Tombstone, elastic.Hard} {
		t.Run(fmt.Sprint(deletes), func(t *testing.T) {
			onEach(t, func(t *testing.T, s *server) {
				c := newCompared(t, s, retract(t), elastic.Options{Deletes: deletes}, "r-{v}")
				r := s.prefix + "-r-"
				for id := range 6 {
					c.put(at(int64(id), ins, id, "DE", day(1)))
				}
				c.put(at(6, old, 1, "DE", day(1)), at(7, upd, 1, "FR", day(1)), at(8, old, 2, "DE", day(1)), at(9, upd, 2, "DE", day(2)), at(10, del, 3, "DE", day(1)))
				c.put(at(11, old, 1, "FR", day(1)), at(12, upd, 1, "DE", day(1)), at(13, old, 4, "DE", day(1)), at(14, upd, 4, "FR", day(1)))
				_, lines, _ := c.view(15)
				c.want("of intact indexes", lines, nil)
				_, lines, _ = c.view(11) // two rows move behind the positions
				c.want("below what is written", lines, nil)

				s.must("PUT", "/"+r+"archive", "")
				s.must("PUT", "/"+r+"archive/_doc/9", `{"id":9,"v":"archive"}`)                         // begins as ours do, and is not
				s.must("PUT", "/"+r+"de/_doc/4", `{"id":4,"v":"DE","flinksink":{"at":"orders/0/4/3"}}`) // moved away long ago
				s.must("PUT", "/"+r+"fr/_doc/1", `{"id":1,"v":"FR","at":null}`)                         // was here for a while
				s.must("DELETE", "/"+r+"fr/_doc/4", "")
				s.must("PUT", "/"+r+"de/_doc/5", `{"id":5,"v":"DE","at":"2024-02-03T00:00:00.000","flinksink":{"at":"orders/0/5/3"}}`)
				v, lines, ds := c.view(15)
				c.want("planted", lines, []string{"extra " + r + "de/4", "extra " + r + "fr/1", "missing 4@14", "stale 5@5"})
				m, err := v.Mend(context.Background(), ds)
				c.must(err)
				mended := sink.Mended{Written: 2, Deleted: 2}
				if deletes == elastic.Hard { // the delete by hand may be the bridge's own
					mended = sink.Mended{Written: 1, Deleted: 2, Changed: 1}
				}
				if m != mended {
					t.Errorf("mended %+v, expected %+v", m, mended)
				}
				if deletes == elastic.Tombstone {
					_, lines, _ = c.view(15)
					c.want("mended", lines, nil)
				}
				if got := s.must("GET", "/"+r+"archive/_doc/9", ""); !strings.Contains(got, `"archive"`) {
					t.Error("a document of somebody else was changed")
				}
			})
		})
	}
}

// An index that is missing as a whole is made for its rows, with the mapping of the table and not with one that the server guesses, and the bridge goes on
// with it.
func TestVerify_IndexOfRowsGone(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		c := newCompared(t, s, retract(t), elastic.Options{Deletes: elastic.Tombstone}, "r-{v}")
		c.put(at(0, ins, 1, "DE", day(1)), at(1, ins, 2, "FR", day(1)))
		s.must("DELETE", "/"+s.prefix+"-r-fr", "")
		v, lines, ds := c.view(2)
		c.want("an index is gone", lines, []string{"missing 2@1"})
		m, err := v.Mend(context.Background(), ds)
		c.must(err)
		if m.Written != 1 {
			t.Errorf("mended %+v", m)
		}
		_, lines, _ = c.view(2)
		c.want("mended", lines, nil)
		if got := s.must("GET", "/"+s.prefix+"-r-fr", ""); !strings.Contains(got, `"ignore_malformed"`) && !strings.Contains(got, `"flinksink"`) {
			t.Errorf("the mapping is not the table's: %s", got)
		}
		b := s.named(t, retract(t), "r-{v}", tombstones)
		b.open(2, 3, true)
		b.must(b.checkpoint(at(2, ins, 3, "FR", day(1))))
	})
}

// Many rows of one id, one in each of many indexes: more documents than a search returns.
func TestVerify_OneIDInManyIndexes(t *testing.T) {
	s := standIn(t)
	c := newCompared(t, s, retract(t), elastic.Options{Deletes: elastic.Tombstone}, "r-{v}")
	const rows, moves = 300, 6
	offset := int64(0)
	for n := range moves {
		var changes []changelog.Change
		for id := range rows {
			if n > 0 {
				changes = append(changes, at(offset, old, id, fmt.Sprint(n-1), day(1)))
				offset++
			}
			changes = append(changes, at(offset, upd, id, fmt.Sprint(n), day(1)))
			if n == 0 {
				changes[len(changes)-1].Kind = ins
			}
			offset++
		}
		c.put(changes...)
	}
	_, lines, _ := c.view(offset)
	c.want("of intact indexes", lines, nil)
}

// A fixed name that stands for several indexes cannot be compared, and the error says what to do.
func TestVerify_AliasOfSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		c := newCompared(t, s, orders(t), tombstones, "one")
		c.put(at(0, ins, 1, "a"))
		s.must("PUT", "/"+s.prefix+"-other", "")
		alias := s.prefix + "-both"
		for _, index := range []string{c.index, s.prefix + "-other"} {
			s.must("PUT", "/"+index+"/_alias/"+alias, "")
		}
		es, err := elastic.New(s.client(nil), alias, &tombstones)
		c.must(err)
		_, err = es.View(context.Background(), sink.ViewRequest{Bridge: "b", Sink: "es", Table: c.table, Positions: []changelog.Position{{Partition: changelog.Partition{Topic: "orders"}}}})
		is(t, err, sink.ErrConfig, "is an alias of 2 indexes")
		is(t, err, sink.ErrConfig, "Name one of them")
	})
}
