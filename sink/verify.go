package sink

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

// Verifiable is a [Sink] whose target can be compared with what a topic says, and mended. The bridge package reads the topic
// (Verify and Repair); this is the target's side of it.
type Verifiable interface {
	Sink
	// View looks at the target of one table as it is at this moment: the view does not change while it is open. What cannot be compared, such as a
	// table without a key, is an ErrConfig that says why.
	View(ctx context.Context, r ViewRequest) (View, error)
}

// ViewRequest says what is looked at.
type ViewRequest struct {
	Bridge string
	Sink   string           // the declared name of the sink in the bridge
	Table  *changelog.Table // what the topic's changes are of
	// Positions are up to where the bridge has written, as its store told before this call. nil: the target is the store, and knows.
	Positions   []changelog.Position
	Pending     []Committable // with Positions: of this sink, decided below them, and perhaps not committed yet
	Incarnation uint16        // with Positions
	Keys        bool          // Difference.Key is wanted
	Why         string        // for the audit of what is mended
}

// View is a target as it was when the view was opened. Calls come from one goroutine at a time, but for Mend within a call of Extra.
type View interface {
	// Cut says which changes the target holds: all below the positions. exact reports that positions and rows are of one moment; where they are
	// not, the target may hold later changes too, and the caller takes the keys of those out of the comparison with Skip.
	Cut() (positions []changelog.Position, exact bool)
	// Rules says which differences there can be.
	Rules() ViewRules
	// AppendKey appends bytes that are equal for the changes of one row of the target.
	AppendKey(dst []byte, c *changelog.Change) []byte
	// Skip takes the rows of these changes out of the search for extra rows.
	Skip(ctx context.Context, changes []changelog.Change) error
	// Compare looks for the rows of changes, which are the last ones of their keys, all of different keys, and each puts a row there. It returns
	// those that are missing, stale or unwritable.
	Compare(ctx context.Context, changes []changelog.Change) ([]Difference, error)
	// Extra hands rows of the target to found that nothing was compared or skipped for.
	Extra(ctx context.Context, pass ViewPass, found func([]Difference) error) error
	// Mend makes differences of this view go away: each only if its row is still as it was seen, and all only if the bridge is still
	// where the view saw it. It ends generations that hold the partitions, as a move of positions by hand does.
	Mend(ctx context.Context, ds []Difference) (Mended, error)
	// Close frees what the view holds. Twice is harmless.
	Close(ctx context.Context) error
}

// ViewRules are what a target's settings make of the topic's rows.
type ViewRules struct {
	KeepsDeleted bool   // rows that the topic deletes stay as they were
	NoExtra      string // why extra rows cannot be told; "": they can
}

// ViewPass says which part of the keys was compared. Memory bounds how many keys can be looked at at once, so there may be several passes.
type ViewPass struct {
	Last bool // no pass follows
	// Lives reports of a key, as View.AppendKey makes it, whether it is one of this pass, and whether a row of it is expected.
	Lives func(key []byte) (mine, lives bool)
}

// DifferenceKind says how a row of the target differs from the topic.
type DifferenceKind uint8

const (
	// Missing is a row that the topic has and the target has not.
	Missing DifferenceKind = iota + 1
	// Stale is a row whose columns are not what the topic's last change of its key says.
	Stale
	// Extra is a row of which the topic has no key, or one whose last change deletes it.
	Extra
	// Unwritable is a row whose last change the target cannot take, so that the bridge set it aside or skipped it. Nobody knows what it should hold.
	Unwritable
)

// String returns "missing", "stale", "extra" or "unwritable".
func (k DifferenceKind) String() string {
	switch k {
	case Missing:
		return "missing"
	case Stale:
		return "stale"
	case Extra:
		return "extra"
	case Unwritable:
		return "unwritable"
	}
	return fmt.Sprintf("DifferenceKind(%d)", uint8(k))
}

// Difference is one row that differs.
type Difference struct {
	Kind   DifferenceKind
	Change changelog.Change // the topic's last change of the row; of an Extra one nothing is known
	Key    string           // as people write it, where it was asked for; it is a value of the row
	Seen   any              // what the view needs to find the row again
}

// Mended counts what became of differences.
type Mended struct {
	Written int64 // rows that were missing or stale
	Deleted int64 // extra rows, those that are marked as deleted included
	Changed int64 // rows that were left alone, since they are not any more as they were seen
	Refused int64 // rows that the target does not take, or alters as it takes them (a trigger), or that the source did not send whole
}

// Add returns the sum.
func (m Mended) Add(n Mended) Mended {
	return Mended{m.Written + n.Written, m.Deleted + n.Deleted, m.Changed + n.Changed, m.Refused + n.Refused}
}
