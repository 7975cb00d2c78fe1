package changelog_test

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

func TestKind(t *testing.T) {
	for i, tt := range []struct {
		k              changelog.Kind
		short, letters string
		adds           bool
	}{
		{changelog.Insert, "+I", "I", true},
		{changelog.UpdateBefore, "-U", "UB", false},
		{changelog.UpdateAfter, "+U", "UA", true},
		{changelog.Delete, "-D", "D", false},
	} {
		if byte(tt.k) != byte(i) {
			t.Errorf("%s is %d, Flink's byte is %d", tt.k, tt.k, i)
		}
		if tt.k.String() != tt.short || tt.k.PlanLetters() != tt.letters || tt.k.Adds() != tt.adds {
			t.Errorf("%d: %s %s %v", i, tt.k, tt.k.PlanLetters(), tt.k.Adds())
		}
		for _, s := range []string{tt.short, tt.letters} {
			if k, err := changelog.ParseKind(s); err != nil || k != tt.k {
				t.Errorf("%s is read as %v, %v", s, k, err)
			}
		}
	}
	for _, s := range []string{"", "+", "+u", "U", "INSERT", "Kind(4)"} {
		if _, err := changelog.ParseKind(s); err == nil || !strings.Contains(err.Error(), "+U") {
			t.Errorf("%q: error %v does not say what is expected", s, err)
		}
	}
	if s := changelog.Kind(9).String(); s != "Kind(9)" {
		t.Errorf("unknown kind prints %s", s)
	}
}

func TestMode(t *testing.T) {
	for _, tt := range []struct {
		m    changelog.Mode
		text string
	}{
		{changelog.Append, "[I]"},
		{changelog.Upsert, "[I,UA,D]"},
		{changelog.Retract, "[I,UB,UA,D]"},
		{0, "[]"},
	} {
		if tt.m.String() != tt.text {
			t.Errorf("%s, want %s", tt.m, tt.text)
		}
		if m, err := changelog.ParseMode(tt.text); err != nil || m != tt.m {
			t.Errorf("%s is read as %v, %v", tt.text, m, err)
		}
	}
	if m, err := changelog.ParseMode(" [ D , I, UA ] "); err != nil || m != changelog.Upsert {
		t.Errorf("%v, %v", m, err)
	}
	if m, err := changelog.ParseMode("[I,UA,PD]"); err != nil || m != changelog.Upsert {
		t.Errorf("partial deletes: %v, %v", m, err)
	}
	for _, s := range []string{"", "I", "[I", "I]", "[I,]", "[I UA]", "[+I]", "[PI]"} {
		if m, err := changelog.ParseMode(s); err == nil {
			t.Errorf("%q is read as %s", s, m)
		}
	}
	if changelog.Append.Contains(changelog.Delete) || !changelog.Upsert.Contains(changelog.Delete) || changelog.Upsert.Contains(changelog.UpdateBefore) ||
		changelog.Retract.Contains(changelog.Kind(7)) || changelog.Retract.Contains(changelog.Kind(255)) {
		t.Error("Contains is wrong")
	}
}

func TestPosition(t *testing.T) {
	p := changelog.Partition{Topic: "orders", Partition: 3}
	if s := (changelog.Position{Partition: p, Offset: 17}).String(); s != "orders/3@17" {
		t.Error(s)
	}
	ordered := []changelog.Partition{{Topic: "a", Partition: 2}, {Topic: "a", Partition: 10}, {Topic: "b", Partition: -1}, {Topic: "b", Partition: 0}}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s to %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestTopicID(t *testing.T) {
	// A topic id as kafka-topics.sh --describe prints it.
	id, err := changelog.ParseTopicID("dYt7q1q6TnGmBzzPVpIePA")
	if err != nil || id.String() != "dYt7q1q6TnGmBzzPVpIePA" || id == (changelog.TopicID{}) {
		t.Errorf("%s, %v", id, err)
	}
	if id, err := changelog.ParseTopicID(""); err != nil || id != (changelog.TopicID{}) || id.String() != "" {
		t.Errorf("the unknown id: %s, %v", id, err)
	}
	for _, s := range []string{"x", "dYt7q1q6TnGmBzzPVpIeP", "dYt7q1q6TnGmBzzPVpIePA==", "dYt7q1q6TnGmBzzPVpIePAAA", "dYt7q1q6TnGmBzzPVpI/PA"} {
		if id, err := changelog.ParseTopicID(s); err == nil {
			t.Errorf("%q is read as %s", s, id)
		}
	}
}

func TestSchema(t *testing.T) {
	s := schemaOf(t, "INT", "STRING")
	if err := s.Validate(); err != nil || s.Index("b") != 1 || s.Index("B") != -1 {
		t.Errorf("%v, %d, %d", err, s.Index("b"), s.Index("B"))
	}
	for name, spoil := range map[string]func(*changelog.Schema){
		"no name":    func(s *changelog.Schema) { s.Columns[0].Name = "" },
		`called "b"`: func(s *changelog.Schema) { s.Columns[0].Name = "b" },
		"number 2":   func(s *changelog.Schema) { s.Key = []int{2} },
		"number -1":  func(s *changelog.Schema) { s.Key = []int{-1} },
		"twice":      func(s *changelog.Schema) { s.Key = []int{1, 1} },
	} {
		s := schemaOf(t, "INT", "STRING")
		spoil(s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not say %q", err, name)
		}
	}
}

func TestDataError(t *testing.T) {
	p := changelog.Partition{Topic: "orders", Partition: 3}
	for _, tt := range []struct {
		err  changelog.DataError
		want string
	}{
		{changelog.DataError{Partition: p, Offset: 17, Part: "value", Field: "items[2].price", Reason: "no number"},
			"changelog: orders/3 offset 17: value field items[2].price: no number"},
		{changelog.DataError{Partition: p, Offset: 0, Part: "key", Reason: "is missing"}, "changelog: orders/3 offset 0: key: is missing"},
		{changelog.DataError{Field: "a", Reason: "r", Err: io.ErrUnexpectedEOF}, "changelog: field a: r: unexpected EOF"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%s\nwant %s", got, tt.want)
		}
	}
	if err := error(&changelog.DataError{Err: io.EOF}); !errors.Is(err, io.EOF) {
		t.Error("the cause cannot be reached")
	}
}

func TestDataClass(t *testing.T) {
	for class, want := range map[changelog.DataClass]string{
		changelog.Unclassified: "unclassified", changelog.Malformed: "malformed", changelog.WrongType: "type", changelog.Missing: "missing",
		changelog.OutOfRange: "range", changelog.UnknownOp: "unknown op", changelog.SchemaMismatch: "schema", 7: "class(7)", 255: "class(255)",
	} {
		if got := class.String(); got != want {
			t.Errorf("%d is %q, want %q", uint8(class), got, want)
		}
	}
	var zero changelog.DataError
	if zero.Class != changelog.Unclassified {
		t.Errorf("an error of no class is %s", zero.Class)
	}
}

func TestTimestampType(t *testing.T) {
	for typ, want := range map[changelog.TimestampType]string{
		changelog.NoTimestamp: "NoTimestampType", changelog.CreateTime: "CreateTime", changelog.LogAppendTime: "LogAppendTime", math.MaxInt8: "NoTimestampType",
	} {
		if typ.String() != want {
			t.Errorf("%d is %s, want %s", typ, typ, want)
		}
	}
}
