package flinkjson

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// ones is an array of about n bytes that has a value for every two of them.
func ones(n int) string { return "[1" + strings.Repeat(",1", n/2) + "]" }

// What a large message takes is a small multiple of its size, whatever it holds; all that is allocated is counted, freed or not.
func TestMemory_LargeMessages(t *testing.T) {
	size := 4 << 20
	if raceEnabled {
		size = 1 << 20 // which is slow enough
	}
	tab := tableOf(t, "id INT", "s STRING", "a ARRAY<INT>")
	deep := strings.Repeat(`{"k":[`, 400) + ones(size) + strings.Repeat(`]}`, 400)
	for _, c := range []struct {
		name, in string
		tree     bool
		times    uint64
	}{
		{"text of an array", `{"id":1,"s":` + ones(size) + `}`, false, 10},
		{"text of small arrays", `{"id":1,"s":[[]` + strings.Repeat(",[]", size/3) + `]}`, false, 10},
		{"text of small objects", `{"id":1,"s":[{}` + strings.Repeat(`,{"a":1.5}`, size/10) + `]}`, false, 10},
		{"text of floats", `{"id":1,"s":[0` + strings.Repeat(`,1e3`, size/4) + `]}`, false, 20},
		{"text of many members", `{"id":1,"s":` + members(size) + `}`, false, 30},
		{"text of deep nesting", `{"id":1,"s":` + deep + `}`, false, 10},
		{"unknown array", `{"id":1,"x":` + ones(size) + `}`, false, 1},
		{"unknown array, and an odd name", `{"\ud83d":1,"id":1,"x":` + ones(size) + `}`, false, 1},
		{"tree: text of an array", `{"id":1,"s":` + ones(size) + `}`, true, 32},
		{"tree: unknown array", `{"id":1,"x":` + ones(size) + `}`, true, 26},
		{"tree: floats", `{"id":1,"x":[0` + strings.Repeat(",1.5", size/4) + `]}`, true, 26},
		{"tree: small arrays", `{"id":1,"x":[0` + strings.Repeat(",[]", size/3) + `]}`, true, 26},
		{"tree: many members", `{"id":1,"x":` + members(size) + `}`, true, 40},
		{"tree: deep nesting", `{"id":1,"x":` + deep + `}`, true, 26},
		{"array", `{"id":1,"a":` + ones(size) + `}`, false, 40},
		{"array, and an odd member", `{"\ud83d":1,"id":1,"a":` + ones(size) + `}`, false, 70},
		{"tree: array", `{"id":1,"a":` + ones(size) + `}`, true, 45},
	} {
		d := decoderOf(t, tab, map[string]string{"decode.json-parser.enabled": fmt.Sprint(!c.tree)}, true)
		b := changelog.NewBatch(tab)
		in := []byte(c.in)
		took := allocated(func() {
			if err := d.DecodePayload(b, in, nil); err != nil || b.Len() != 1 {
				t.Errorf("%s: %d rows, %v", c.name, b.Len(), err)
			}
		})
		t.Logf("%s: %.1f times", c.name, float64(took)/float64(len(in)))
		if took > c.times*uint64(len(in))+1<<20 {
			t.Errorf("%s: %d bytes for a message of %d", c.name, took, len(in))
		}
	}
}

// members is an object of about n bytes.
func members(n int) string {
	var s strings.Builder
	s.WriteString(`{"a":1`)
	for i := 0; s.Len() < n; i++ {
		fmt.Fprintf(&s, `,"%d":1`, i)
	}
	return s.String() + "}"
}

// The nodes of a message are bounded; the error says where they are, by names of the table and of envelopes only.
func TestMemory_NodesAreBounded(t *testing.T) {
	tab := tableOf(t, "id INT", "s STRING", "m MAP<STRING, STRING>")
	d := decoderOf(t, tab, map[string]string{"decode.json-parser.enabled": "false", "ignore-parse-errors": "true"}, true)
	d.nodes = 1000
	for _, c := range []struct{ in, field, rows string }{
		{`{"id":1,"s":` + ones(2*997) + `}`, "", ""},
		{`{"id":1,"s":` + ones(2*996) + `}`, "-", ""},
		{`{"id":1,"s":` + ones(2*1000) + `}`, "s", ""},
		{`{"id":1,"m":{"secret":` + ones(2*1000) + `}}`, "m", ""},
		{`{"id":1,"secret":` + ones(2*1000) + `}`, "", ""},
	} {
		b := changelog.NewBatch(tab)
		err := d.DecodePayload(b, []byte(c.in), nil)
		if c.field == "-" {
			if err != nil || b.Len() != 1 {
				t.Errorf("%d rows, %v", b.Len(), err)
			}
			continue
		}
		var de *changelog.DataError
		if !errors.As(err, &de) || b.Len() != 0 || !strings.Contains(de.Reason, fmt.Sprintf("more than %d JSON values", maxNodes)) {
			t.Errorf("%d rows, %v", b.Len(), err)
		} else if c.field != "" && de.Field != c.field || strings.Contains(de.Error(), "secret") {
			t.Errorf("field %q, want %q: %v", de.Field, c.field, de)
		}
	}
}

// containers are arrays and objects as they come into a STRING, with all that makes their text another one.
var containers = []string{
	`[]`, `{}`, ` [ 1 , -0 , -1 , 00 ] `, `[1.50,1e3,-0.0,0e9,1e400,-1e400,1e-400,123456789012345678901234567890,0.1e-6]`, `[1e3,1E+3,100.0,0.00]`,
	`[12345678901234567.89]`, `[1e99999999999]`, `["a\u00e9\/\b\n\"\\","é😀","\ud83d\ude00","\ud83d","` + "\x01\t" + `"]`, "[\"\xED\xA0\xBD\xED\xB8\x80\", \"\xC0\x80\"]", "[\"\xFF\"]",
	`[true,false,null,[[]],[{}],{"a":[{"b":{}}]}]`, `{"\u0061":1,"é":2,"\n":3}`, `{"a":1,"b":2,"a":[3]}`, `{"a":1,"b":{"c":1,"c":2},"\u0061":1.50}`,
	`{"a":{"x":1},"b":{"x":1}}`, `{"a":{"a":1},"b":{"b":1},"c":[{"a":1},{"a":1}]}`, `[1,2`, `[1,]`, `{"a":}`, `{"a"`, `{"a":1,}`, `[tru]`, `[01]`, `{"a":"x`, `[1}`, `[{"a":1,"a":2},1`,
	`{"a1":1,"a2":1,"a3":1,"a4":1,"a5":1,"a6":1,"a7":1,"a8":1,"a9":1,"b1":1,"b2":1,"b3":1,"b4":1,"b5":1,"b6":1,"b7":1,"b8":1,"b9":{"a1":1},"c1":1}`,
	`{"a1":1,"a2":1,"a3":1,"a4":1,"a5":1,"a6":1,"a7":1,"a8":1,"a9":1,"b1":1,"b2":1,"b3":1,"b4":1,"b5":1,"b6":1,"b7":1,"b8":1,"b9":{"a1":1},"a3":{},"c1":1}`,
}

// checkContainer compares the text that is written while the message is read with that of the tree.
func checkContainer(t *testing.T, container string) {
	t.Helper()
	for _, columns := range [][]string{{"s STRING", "n INT"}, {"s STRING", "n INT", "d DECIMAL(5, 2)"}} {
		tab := tableOf(t, columns...)
		for _, lenient := range []bool{false, true} {
			in := []byte(`{"s":` + container + `,"n":7}`)
			d := decoderOf(t, tab, nil, lenient)
			var x exact
			var got, want [2]string
			read := func(text func(x *exact, dst *changelog.Value) *Failure) (out [2]string) {
				b := changelog.NewBatch(tab)
				f := x.read(d, b, in, func(x *exact) *Failure {
					for range 3 {
						if f := x.l.next(); f != nil {
							return f
						}
					}
					if x.l.tok != tokObject && x.l.tok != tokArray {
						return nil
					}
					var v changelog.Value
					if f := text(x, &v); f != nil {
						return f
					}
					// What follows must be read from the same place.
					if f := x.l.next(); f != nil {
						return f
					}
					out[0] = v.Str() + "\n" + string(x.l.name)
					return nil
				})
				if f != nil {
					out[1] = f.reason
				}
				return out
			}
			got = read((*exact).containerText)
			want = read(func(x *exact, dst *changelog.Value) *Failure {
				n, f := x.readTree()
				if f != nil {
					return f
				}
				return x.treeText(&n, dst)
			})
			if got != want {
				t.Errorf("%s, lenient %v: %q, the tree %q", container, lenient, got, want)
			}
		}
	}
}

func TestContainerText_IsThatOfTheTree(t *testing.T) {
	for _, c := range containers {
		checkContainer(t, c)
	}
}

func FuzzContainerText(f *testing.F) {
	for _, c := range containers {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, c string) { checkContainer(t, c) })
}
