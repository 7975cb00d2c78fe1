package debezium

import (
	"runtime"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/formattest"
)

// A member that is large takes a small multiple of its size, whoever reads it and whether anybody does.
func TestDecode_LargeMemberMemory(t *testing.T) {
	const size = 4 << 20
	p := formattest.Payload(t, nil, nil, "id INT", "s STRING")
	ones := "[1" + strings.Repeat(",1", size/2) + "]"
	for _, in := range []string{
		`{"before":null,"after":{"id":1},"x":` + ones + `,"op":"c"}`,
		`{"before":null,"after":{"id":1,"s":` + ones + `},"op":"c"}`,
		`{"before":null,"after":{"id":1,"s":` + strings.Repeat(`{"k":[`, 400) + ones + strings.Repeat("]}", 400) + `},"op":"c"}`,
	} {
		for _, odd := range []string{"{", `{"\ud83d":0,`} { // the second is read as a tree
			payload := []byte(odd + in[1:])
			var before, after runtime.MemStats
			b := changelog.NewBatch(p.Table)
			d := formattest.Decoder(t, Format{}, p)
			runtime.ReadMemStats(&before)
			err := d.DecodePayload(b, payload, nil)
			runtime.ReadMemStats(&after)
			if err != nil || b.Len() != 1 {
				t.Errorf("%.40s: %d rows, %v", payload, b.Len(), err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 45*size {
				t.Errorf("%.40s: %d bytes", payload, n)
			}
		}
	}
}
