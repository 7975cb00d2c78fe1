package turns

// Group is what bench/rivals measured of one wire format, as it hands it to bench.
type Group struct {
	Name    string // of the format, and of who writes the messages where that is not Flink
	Bytes   int    // of a message, on average
	Want    float64
	Allocs  float64 // the most allocations a row that were set, -1: none
	Entries []Entry
}

// Role says what an entry of a group is.
type Role string

const (
	Decode Role = "decode" // ours
	Encode Role = "encode" // ours, of the same rows
	Rival  Role = "rival"  // decodes the same bytes, and does at least as much
)

// Entry is one contender of a group. A rival that stands apart is shown, and not what the decoder has to be as fast as.
type Entry struct {
	Name  string
	Role  Role
	Apart bool
	Result
}
