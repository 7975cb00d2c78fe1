package elastic

import "fmt"

// A version is (incarnation << 48) | offset. Elasticsearch takes 0 to 2^63-1.
const (
	offsetBits     = 48
	maxOffset      = 1<<offsetBits - 1
	maxIncarnation = 1<<(63-offsetBits) - 1
)

func version(incarnation uint16, offset int64) int64 { return int64(incarnation)<<offsetBits | offset }

// versionText says what a version stands for.
func versionText(v int64) string {
	return fmt.Sprintf("%d (incarnation %d, offset %d)", v, v>>offsetBits, v&maxOffset)
}
