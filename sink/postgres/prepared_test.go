package postgres

import (
	"math"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink"
)

func TestMode_Text(t *testing.T) {
	for m := InTransaction; m <= Staged; m++ {
		got, err := ParseMode(m.String())
		if got != m || err != nil {
			t.Errorf("%v reads as %v, %v", m, got, err)
		}
		if g := m.guarantee(); g.Level != sink.ExactlyOnce || g.How == "" || g.Visible == "" || g.Zombie == "" {
			t.Errorf("%v: %+v", m, g)
		}
	}
	if _, err := ParseMode("Prepared"); sink.ClassOf(err) != sink.ErrConfig {
		t.Errorf("another spelling: %v", err)
	}
}

// Names are bounded, one to one, and read back.
func TestGid(t *testing.T) {
	s := &Sink{o: Options{Schema: strings.Repeat("s", 63)}}
	seen := map[string]bool{}
	for _, bridge := range []string{"b", "b/1", "b\x001", "B", strings.Repeat("é", 100), strings.Repeat("x", 200), strings.Repeat("x", 199) + "y", "it's"} {
		for _, name := range []string{"target", "other"} {
			for _, db := range []uint32{1, 11} {
				for _, n := range []int64{1, 11, math.MaxInt64} {
					gid := s.gid(db, writer{bridge, name, sink.GenerationID(n)}, sink.CheckpointID(n))
					if len(gid) > maxGid || seen[gid] {
						t.Errorf("%q has %d bytes, or is there twice", gid, len(gid))
					}
					seen[gid] = true
					if gen, cp, ok := gidNumbers(gid); !ok || int64(gen) != n || int64(cp) != n {
						t.Errorf("%q reads as %d, %d, %v", gid, gen, cp, ok)
					}
				}
			}
		}
	}
	for _, bad := range []string{"", "flinksink", "flinksink/b/h/1", "flinksink/b/h/1/1/1", "other/b/h/1/1", "flinksink/b/h/01/1", "flinksink/b/h/1/0", "flinksink/b/h/-1/1",
		"flinksink/b/h/1/ 1", "flinksink/b'/h/1/1", `flinksink/b\/h/1/1`, "flinksink/" + strings.Repeat("b", 200) + "/h/1/1"} {
		if gen, cp, ok := gidNumbers(bad); ok {
			t.Errorf("%q reads as %d, %d", bad, gen, cp)
		}
	}
}

// Whatever a store hands over as a receipt, it is read or refused.
func FuzzReadReceipt(f *testing.F) {
	for _, data := range []string{`{"mode":"prepared","bridge":"b","gid":"flinksink/b/0/1/2","changes":3}`, `{"mode":"staged","bridge":"b","changes":3,"chunks":2,"digest":"AA=="}`,
		`{"mode":"in-transaction","bridge":"b"}`, `{"mode":"staged","bridge":"b","chunks":-1}`, `null`, `{`, ``} {
		f.Add([]byte(data), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, version int) {
		p, err := readReceipt(sink.Committable{Sink: "target", Generation: 1, Checkpoint: 2, Version: version, Data: data})
		switch {
		case err != nil:
			if sink.ClassOf(err) != sink.ErrConfig {
				t.Errorf("class of %v", err)
			}
		case p.mode == InTransaction || p.bridge == "" || p.sink != "target" || p.gen != 1 || p.cp != 2 || version != ReceiptVersion:
			t.Errorf("%q reads as %+v", data, p)
		case p.mode == Prepared && strings.ContainsAny(p.Gid, `'\`):
			t.Errorf("the name %q is no literal", p.Gid)
		}
	})
}
