package kafka

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// nameOf returns the transactional id of a generation: the prefix, what people can read of the bridge's name, a hash of the whole of both
// names, and the generation. It is the same in every process and release, since successors fence by it; it is short whatever the names
// are, since brokers refuse ids that do not fit their log; and no two bridges or sinks share one. "" as the sink is the bridge's store.
func nameOf(prefix, bridge, sinkName string, g sink.GenerationID) string {
	const readable = 60
	sum := sha256.Sum256([]byte(strconv.Itoa(len(bridge)) + ":" + bridge + ":" + sinkName))
	var b strings.Builder
	b.WriteString(prefix)
	b.WriteByte('.')
	for i, r := range bridge {
		if i >= readable {
			break
		}
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	b.WriteByte('.')
	b.WriteString(hex.EncodeToString(sum[:12]))
	b.WriteByte('.')
	b.WriteString(strconv.FormatInt(int64(g), 10))
	return b.String()
}
