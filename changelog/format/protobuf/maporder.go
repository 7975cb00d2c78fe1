package protobuf

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// entry is one of a map that is written.
type entry struct {
	key, value changelog.Value
	hash       uint32
}

// inHashOrder returns the entries of a map in the order in which Java's HashMap has them: Flink puts them into one, and the message keeps its order.
// A NULL key is the default of its type, and of two entries with one key the later value stands in the earlier one's place.
func (e *encoder) inHashOrder(c *column, pairs []changelog.Value) ([]entry, *failure) {
	if len(pairs)%2 != 0 {
		return nil, flinkjson.Misfit(changelog.Malformed, "the map has a key without a value")
	}
	type id struct {
		n int64
		s string
	}
	entries := make([]entry, 0, len(pairs)/2)
	at := make(map[id]int, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		key := pairs[i]
		if key.IsNull() {
			key = e.nullKey(c.key)
		}
		if key.Kind() != c.typ.Key.Root.ValueKind() {
			return nil, misfit(c.typ)
		}
		k := id{key.Int(), key.Str()}
		if key.Bool() {
			k.n = 1
		}
		if old, ok := at[k]; ok {
			entries[old].value = pairs[i+1]
			continue
		}
		at[k] = len(entries)
		entries = append(entries, entry{key, pairs[i+1], hash(c.typ.Key, key)})
	}
	// A HashMap begins with 16 buckets and doubles them when more than three quarters are taken; it never shrinks. In a bucket the entries stay in
	// the order in which they came.
	buckets := uint32(16)
	for len(entries)*4 > int(buckets)*3 {
		buckets *= 2
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return int(a.hash&(buckets-1)) - int(b.hash&(buckets-1)) })
	return entries, nil
}

func (e *encoder) nullKey(fd *field) changelog.Value {
	switch fd.kind {
	case protoreflect.StringKind:
		return changelog.StringValue(e.nullText)
	case protoreflect.BoolKind:
		return changelog.BoolValue(false)
	}
	return changelog.IntValue(0)
}

// hash is Java's hashCode of a key, spread as HashMap.hash does.
func hash(t *changelog.Type, key changelog.Value) uint32 {
	var h uint32
	switch t.Root {
	case changelog.RootBoolean:
		h = 1237
		if key.Bool() {
			h = 1231
		}
	case changelog.RootInt:
		h = uint32(key.Int())
	case changelog.RootBigInt:
		h = uint32(key.Int() ^ int64(uint64(key.Int())>>32))
	default:
		for _, r := range key.Str() {
			if r > 0xFFFF { // two of Java's characters
				r -= 0x10000
				h = 31*h + uint32(0xD800+r>>10)
				r = 0xDC00 + r&0x3FF
			}
			h = 31*h + uint32(r)
		}
	}
	return h ^ h>>16
}
