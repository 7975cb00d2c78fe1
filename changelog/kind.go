package changelog

import "fmt"

// Kind is the kind of a change, Flink's RowKind
// (https://nightlies.apache.org/flink/flink-docs-stable/api/java/org/apache/flink/types/RowKind.html).
// The values are Flink's own byte values.
type Kind uint8

const (
	Insert       Kind = iota // +I: a new row
	UpdateBefore             // -U: the row as it was before an update
	UpdateAfter              // +U: the row as it is after an update
	Delete                   // -D: the row is gone
)

// String returns Flink's short form: "+I", "-U", "+U" or "-D".
func (k Kind) String() string {
	switch k {
	case Insert:
		return "+I"
	case UpdateBefore:
		return "-U"
	case UpdateAfter:
		return "+U"
	case Delete:
		return "-D"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// PlanLetters returns the letters that Flink's EXPLAIN CHANGELOG_MODE prints: "I", "UB", "UA" or "D".
func (k Kind) PlanLetters() string {
	switch k {
	case Insert:
		return "I"
	case UpdateBefore:
		return "UB"
	case UpdateAfter:
		return "UA"
	case Delete:
		return "D"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind reads the short form ("+U") or the plan letters ("UA").
func ParseKind(s string) (Kind, error) {
	for k := Insert; k <= Delete; k++ {
		if s == k.String() || s == k.PlanLetters() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("changelog: %q is no kind of change: expected +I, -U, +U, -D or I, UB, UA, D", s)
}

// Adds reports whether the change puts a row there (+I, +U) rather than takes one away (-U, -D).
func (k Kind) Adds() bool { return k == Insert || k == UpdateAfter }
