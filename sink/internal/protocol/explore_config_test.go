package protocol

// config is a small world that is explored whole.
type config struct {
	name   string
	about  string
	kinds  [nSinks]kind
	parts  uint8         // that there are
	lanes  int           // processes
	start  [nParts]uint8 // process that each is assigned to at first, from 1
	fresh  bool          // nothing was ever saved
	outer  bool          // no group and no store: an outer engine decides (External)
	gens   uint8         // generations, not counting those of the last owner
	budget budget
	// With FLINKSINK_LONG, instead:
	longGens uint8
	long     budget
}

// The seven worlds. Late requests are in all of them: whatever a process asked when it crashed or lost patience may arrive at any later time.
var configs = []config{
	{
		name: "two-phase", about: "2 partitions, 2 processes, one two-phase sink with a fence",
		kinds: [nSinks]kind{twoPhase}, parts: allParts, lanes: 2, start: [nParts]uint8{1, 1},
		gens: 3, budget: budget{Lost: 1, Moves: 1},
		longGens: 3, long: budget{Crashes: 2, Lost: 1, Moves: 1},
	},
	{
		name: "to-and-fro", about: "1 partition handed to and fro, never saved before, a sink whose work and fence lock each other out",
		kinds: [nSinks]kind{locked}, parts: 1, lanes: 2, start: [nParts]uint8{1}, fresh: true,
		gens: 4, budget: budget{Lost: 1, Moves: 2},
		longGens: 4, long: budget{Crashes: 1, Lost: 1, Moves: 2},
	},
	{
		name: "unfenced", about: "2 partitions, 2 processes, a sink without a fence that sweeps",
		kinds: [nSinks]kind{unfenced}, parts: allParts, lanes: 2, start: [nParts]uint8{1, 2},
		gens: 2, budget: budget{Lost: 1, Moves: 1},
		longGens: 2, long: budget{Crashes: 1, Lost: 1, Moves: 1},
	},
	{
		name: "sessions", about: "2 partitions, 2 processes, a sink with an id for each generation and epochs",
		kinds: [nSinks]kind{sessions}, parts: allParts, lanes: 2, start: [nParts]uint8{1, 1},
		gens: 2, budget: budget{Lost: 1, Moves: 1},
		longGens: 3, long: budget{Crashes: 1, Lost: 1, Moves: 1},
	},
	{
		name: "own-store", about: "2 partitions, 2 processes, a sink that is its own store beside a two-phase one",
		kinds: [nSinks]kind{ownStore, twoPhase}, parts: allParts, lanes: 2, start: [nParts]uint8{1, 1},
		gens: 2, budget: budget{Lost: 1, Moves: 1},
		longGens: 2, long: budget{Crashes: 1, Lost: 1, Moves: 1},
	},
	{
		name: "convergent", about: "2 partitions, 2 processes, a convergent sink beside a two-phase one, refusals and ended patience",
		kinds: [nSinks]kind{convergent, twoPhase}, parts: allParts, lanes: 2, start: [nParts]uint8{1, 1},
		gens: 2, budget: budget{Refused: 1, Moves: 1, Interrupts: 1},
		longGens: 2, long: budget{Lost: 1, Refused: 1, Moves: 1, Interrupts: 1},
	},
	{
		name: "outer", about: "1 partition, 2 processes, an outer engine that decides, dies, and restores; a two-phase sink with a fence",
		kinds: [nSinks]kind{twoPhase}, parts: 1, lanes: 2, fresh: true, outer: true,
		gens: 2, budget: budget{Lost: 1, Moves: 1},
		longGens: 3, long: budget{Lost: 1, Moves: 1},
	},
}
