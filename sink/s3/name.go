package s3

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Every name that is written holds bridge, sink and generation, so that no two writers share one, and a sweep knows what is whose without
// opening it. The random end keeps names apart even where a store was begun anew and numbers its generations from 1 again.
//
//	PREFIX/TABLE/[COLUMN=VALUE/...]BRIDGE.SINK.pFIRST-LAST.gGENERATION.cCHECKPOINT.SEQUENCE.RANDOM.EXTENSION
//	PREFIX/_staging/BRIDGE/SINK/GENERATION/(the same from TABLE on)
//	PREFIX/_flinksink/BRIDGE/SINK/letter/(a name as that of a data object)
//	PREFIX/_flinksink/BRIDGE/SINK/fence/GENERATION
//	PREFIX/_flinksink/BRIDGE/SINK/receipt/GENERATION-CHECKPOINT-RANDOM
//	PREFIX/_flinksink/BRIDGE/SINK/manifest/GENERATION-CHECKPOINT-RANDOM.json
//	PREFIX/_flinksink/BRIDGE/store.json
//
// Readers of lakes (Hive, Spark, Trino) leave out what begins with an underscore.
const (
	ownFolder     = "_flinksink"
	stagingFolder = "_staging"
)

// maxWord bounds an escaped word: some servers keep keys as file names, of 255 bytes each part.
const maxWord = 60

// escape makes a name fit into a key and a file's name, one way: letters, digits, - and _ stay, any other byte is ! and two hex digits. A long one is cut off
// and ends in a hash of the whole.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "!%02x", c)
		}
	}
	out := b.String()
	if len(out) > maxWord {
		sum := sha256.Sum256([]byte(s))
		out = out[:maxWord-18] + "!!" + hex.EncodeToString(sum[:8])
	}
	if out == "" || out[0] == '_' { // a table called _staging would be hidden, and among the sink's own
		out = "!" + out
	}
	return out
}

// names are those of one sink of one bridge.
type names struct {
	prefix, bridge, sink string
}

func newNames(prefix, bridge, sink string) names {
	return names{prefix, escape(bridge), escape(sink)}
}

// own names something of the sink's own; a trailing slash is kept.
func (n names) own(parts ...string) string {
	return path.Join(append([]string{n.prefix, ownFolder, n.bridge, n.sink}, parts...)...)
}

func (n names) fence(g sink.GenerationID) string {
	return n.own("fence", strconv.FormatInt(int64(g), 10))
}

// staging is the folder of all staged objects of the sink.
func (n names) staging() string { return path.Join(n.prefix, stagingFolder, n.bridge, n.sink) + "/" }

func (n names) staged(g sink.GenerationID, rest string) string {
	return n.staging() + strconv.FormatInt(int64(g), 10) + "/" + rest
}

// numbered sorts as its numbers do.
func numbered(g sink.GenerationID, c sink.CheckpointID) string {
	return fmt.Sprintf("%012d-%012d", g, c)
}

// file is the name of a data object without its folder.
func (n names) file(parts []changelog.Partition, g sink.GenerationID, c sink.CheckpointID, seq int, random, extension string) string {
	first, last := int32(0), int32(0)
	if len(parts) > 0 {
		first, last = parts[0].Partition, parts[0].Partition
		for _, p := range parts {
			first, last = min(first, p.Partition), max(last, p.Partition)
		}
	}
	return fmt.Sprintf("%s.%s.p%d-%d.g%d.c%d.%d.%s%s", n.bridge, n.sink, first, last, g, c, seq, random, extension)
}

// generationOf reads the generation out of the key of a data or staged object, if it is of this sink of this bridge.
func (n names) generationOf(key string) (sink.GenerationID, bool) {
	words := strings.Split(path.Base(key), ".")
	if len(words) < 7 || words[0] != n.bridge || words[1] != n.sink || !strings.HasPrefix(words[2], "p") || !strings.HasPrefix(words[4], "c") {
		return 0, false
	}
	g, err := strconv.ParseInt(strings.TrimPrefix(words[3], "g"), 10, 64)
	return sink.GenerationID(g), err == nil && g > 0
}

// brief is a key without its folders, which may hold values of partition columns.
func brief(key string) string { return path.Base(key) }

// newToken returns 128 random bits.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return hex.EncodeToString(b[:])
}
