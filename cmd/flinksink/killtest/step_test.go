package killtest

import "github.com/twmb/franz-go/pkg/kmsg"

// step is a place in the life of a bridge where it can die.
type step struct {
	name string
	// hook names a hook of the coordinator, "" for none. Without messages the bridge dies in it, at its nth call; with messages it dies
	// at them once the hook was called n times.
	hook string
	// messages are texts that are sent to Postgres, one after the other; the bridge dies at the last one. Without a hook it dies at
	// the nth of the last one. An empty text is any message.
	messages []string
	least    int   // bytes that the message has at least
	at       event // of the message
	// request is the key of a request to the broker, -1 for none. The bridge dies when the nth one was sent.
	request int16
	most    int // n is 1 to most
}

// event is a moment in the life of a message.
type event int

const (
	unsent   event = iota // nothing of it left the process
	half                  // the first half of its bytes was sent
	sent                  // it was sent, nobody has read the answer
	answered              // the answer has arrived, and nobody looked at it
)

const (
	commit   = "COMMIT\x00" // as a query of its own, and as the last statement of a message: see holds
	acquires = "last_generation = last_generation + 1"
	lots     = 2048 // bytes that no statement without rows has
)

// steps are in the order of a bridge's life.
func steps() []step {
	hook := func(name, hook string) step { return step{name: name, hook: hook, request: -1, most: 4} }
	wire := func(name, hook string, at event, messages ...string) step {
		return step{name: name, hook: hook, messages: messages, at: at, request: -1, most: 4}
	}
	rows := func(name string, at event) step {
		return step{name: name, messages: []string{""}, least: lots, at: at, request: -1, most: 3}
	}
	once := func(s step) step { s.most = 1; return s }
	request := func(name string, k kmsg.Key) step { return step{name: name, request: k.Int16(), most: 1} }
	several := func(s step, n int) step { s.most = n; return s }
	return []step{
		request("JoinGroup sent", kmsg.JoinGroup),
		request("SyncGroup sent", kmsg.SyncGroup),
		once(wire("in Acquire", "", sent, acquires)),
		once(wire("Acquire: COMMIT not sent", "", unsent, acquires, commit)),
		once(wire("Acquire: COMMIT sent", "", sent, acquires, commit)),
		once(wire("Acquire: COMMIT answered", "", answered, acquires, commit)),
		once(hook("before Open", "Acquired")),
		once(wire("in Open", "Acquired", sent, "")),
		rows("Write: half of the rows sent", half),
		rows("Write: rows sent", sent),
		several(hook("after Write", "Written"), 8),
		hook("before Prepare", "Begun"),
		wire("in Prepare", "Begun", sent, ""),
		hook("after Prepare", "Prepared"),
		hook("before Save", "Saving"),
		wire("in Save: positions sent", "Saving", sent, ""),
		wire("Save: COMMIT not sent", "Saving", unsent, commit),
		wire("Save: half of COMMIT sent", "Saving", half, commit),
		wire("Save: COMMIT sent", "Saving", sent, commit),
		wire("Save: COMMIT answered", "Saving", answered, commit),
		hook("after Save", "Saved"),
		hook("before the group offset", "Committed"),
		several(request("group offset sent", kmsg.OffsetCommit), 3),
	}
}
