// Package killtest kills bridges with SIGKILL, again and again, and compares what is in Postgres with what was produced. It holds tests
// only.
//
// # Overview
//
// A broker runs in a process of its own, Postgres is a real server. Writers put changes into two topics while bridges read them and die:
// an upsert topic (inserts, updates, deletes, re-inserts of the same keys) and an append topic without a key, three partitions each,
// all in transactions of which some are aborted. What an aborted transaction holds would be wrong if it ever took effect.
//
// # Where bridges die
//
// At named steps: the test binary runs itself as a bridge that kills itself at the nth occurrence of a step, in a hook of the
// checkpoint protocol, at bytes on the wire to Postgres (COMMIT not sent, half of it sent, sent, answered), or at a request to the
// broker. And at random moments: the real flinksink run is killed by its parent, alone, with two lanes, and as one of two processes of
// the bridge.
//
// # What is compared
//
// The oracle is fed by the writers, with the offsets that the broker answered them; no decoder of ours has a part in it. After
// every death one snapshot of Postgres is compared with it: the tables have to be what the oracle says for exactly the stored
// positions, which never go back. A trigger notes every row of the keyed table that does not move forward, so that a change that takes
// effect twice is seen although it leaves the row as it was. At the end everything is compared row by row, and the positions with the
// last stable offsets. A step that no bridge died at is a failure too.
//
// # Settings
//
// FLINKSINK_POSTGRES names the server and is required; FLINKSINK_KAFKA adds a run with a real Kafka broker; FLINKSINK_LONG=1 has
// more rounds; FLINKSINK_SEED repeats what was produced and where bridges were to die, though not the moments of the random ones.
//
// # Not covered
//
// Brokers and servers that die, machines that lose power, processes that are stopped and go on later.
package killtest
