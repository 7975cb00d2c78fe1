package postgres

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// Whatever is read at a time, and whatever rows are larger than that, the same bytes come: header, rows, trailer.
func TestCopyReader(t *testing.T) {
	long := strings.Repeat("x", 5000)
	var changes []changelog.Change
	want := []byte(copyHeader)
	for i := range 300 {
		text := long[:i*i%len(long)]
		changes = append(changes, changelog.Change{Row: changelog.Row{changelog.IntValue(int64(i)), changelog.StringValue(text)}})
		n := len(text)
		want = append(want, 0, 2, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, byte(i>>8), byte(i), 0, 0, byte(n>>8), byte(n))
		want = append(want, text...)
	}
	want = append(want, 0xff, 0xff)
	// The second column's encoder writes more than it keeps, as some do.
	wasteful := func(dst []byte, v changelog.Value) ([]byte, error) {
		dst = append(append(dst, v.Str()...), make([]byte, 40)...)
		return dst[:len(dst)-40], nil
	}
	tg := &target{columns: []column{{source: 0, bind: binder{put: putInt(8)}}, {source: 1, bind: binder{put: wasteful}}}}
	seed := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1, 2, 19, 64, 4096, 65531, len(want), len(want) - 1, 2 * len(want)} {
		r := (&applier{}).copyOf(tg, changes)
		var got []byte
		p := make([]byte, most)
		for {
			size := most
			if most > 64 && seed.IntN(2) == 0 {
				size = 1 + seed.IntN(most)
			}
			n, err := r.Read(p[:size])
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("at most %d: %d, %v", most, n, err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("at most %d: %d bytes, expected %d, or others", most, len(got), len(want))
		}
	}
}
