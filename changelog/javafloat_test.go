package changelog_test

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// The file holds what Double.toString and Float.toString of a JDK 17 print: "d" or "f", the bits in hex, the text. It was made
// with testdata/FloatTexts.java; setting JAVA_FLOAT_TEXTS to the path of a longer one tests that too.
func TestAppendJavaFloat_AsJDK17(t *testing.T) {
	files := []string{"testdata/java17-float.txt"}
	if more := os.Getenv("JAVA_FLOAT_TEXTS"); more != "" {
		files = append(files, more)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := 0
		for sc := bufio.NewScanner(f); sc.Scan(); lines++ {
			word := strings.Fields(sc.Text())
			if len(word) != 3 {
				t.Fatalf("%s: line %d has %d words", file, lines+1, len(word))
			}
			width := 64
			if word[0] == "f" {
				width = 32
			}
			u, err := strconv.ParseUint(word[1], 16, width)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			if word[0] == "d" {
				got = changelog.AppendJavaDouble(nil, math.Float64frombits(u))
			} else {
				got = changelog.AppendJavaFloat(nil, math.Float32frombits(uint32(u)))
			}
			if string(got) != word[2] && !roundedDown(string(got), word[2]) {
				t.Errorf("%s: %s %s is %q, Java prints %q", file, word[0], word[1], got, word[2])
			}
		}
		if lines < 1000 {
			t.Errorf("%s: only %d lines", file, lines)
		}
	}
}

// roundedDown reports the one difference that is known and not copied: one less in the last digit between 2^83 and 2^86, about.
func roundedDown(got, java string) bool {
	a, err := strconv.ParseFloat(got, 64)
	if err != nil || len(got) != len(java) || math.Abs(a) < 0x1p82*1.9 || math.Abs(a) > 0x1p86*1.001 {
		return false
	}
	g, j := strings.Split(got, "E"), strings.Split(java, "E")
	last := len(g[0]) - 1
	return g[1] == j[1] && g[0][:last] == j[0][:last] && g[0][last] == j[0][last]+1
}

// Whatever digits are chosen, they must read back as the same number.
func FuzzAppendJavaDouble(f *testing.F) {
	for _, u := range []uint64{0, 1, 1 << 63, 0x7fefffffffffffff, 0x10000000000000, math.Float64bits(2e23), 0x7ff0000000000000, 0x7ff8000000000001} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, u uint64) {
		d := math.Float64frombits(u)
		text := changelog.AppendJavaDouble(nil, d)
		back, err := strconv.ParseFloat(string(text), 64)
		if err != nil || back != d && !(math.IsNaN(d) && math.IsNaN(back)) {
			t.Errorf("%x prints %q, which reads back as %x (%v)", u, text, math.Float64bits(back), err)
		}
		s := math.Float32frombits(uint32(u))
		text = changelog.AppendJavaFloat(nil, s)
		back, err = strconv.ParseFloat(string(text), 32)
		if err != nil || float32(back) != s && !(s != s && math.IsNaN(back)) {
			t.Errorf("%x prints %q, which reads back as %v (%v)", uint32(u), text, back, err)
		}
	})
}

func BenchmarkAppendJavaDouble(b *testing.B) {
	for _, d := range []float64{1.5, 0.1, 123.45, math.Pi * 1e200} {
		b.Run(string(bytes.TrimSpace(changelog.AppendJavaDouble(nil, d))), func(b *testing.B) {
			dst := make([]byte, 0, 64)
			for b.Loop() {
				dst = changelog.AppendJavaDouble(dst[:0], d)
			}
		})
	}
}
