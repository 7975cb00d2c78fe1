package s3

import (
	"strings"
	"testing"
)

// What unescape makes of an escaped name is that name, or where that was cut off its beginning.
func TestUnescape(t *testing.T) {
	for _, name := range []string{"orders", "a.b/c", "_own", "ü!x", "a b", strings.Repeat("x", 60), "!", "__", "_"} {
		if got := unescape(escape(name)); got != name {
			t.Errorf("%q is escaped as %q, and that read as %q", name, escape(name), got)
		}
	}
	for _, name := range []string{strings.Repeat("long-", 20), strings.Repeat("ü", 40)} {
		got := unescape(escape(name))
		if begin, cut := strings.CutSuffix(got, "..."); !cut || len(begin) < 10 || !strings.HasPrefix(strings.ToValidUTF8(name, ""), strings.ToValidUTF8(begin, "")) {
			t.Errorf("%q is read as %q", name, got)
		}
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add("a.b")
	f.Add("!")
	f.Fuzz(func(t *testing.T, name string) {
		if word := escape(name); name != "" && !strings.Contains(word, "!!") && unescape(word) != name {
			t.Errorf("%q, %q", word, unescape(word))
		}
		unescape(name)
	})
}
