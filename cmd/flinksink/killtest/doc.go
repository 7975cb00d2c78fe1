// Package killtest kills bridges with SIGKILL, stops them with SIGSTOP, takes their servers away, again and again, and compares what is in
// Postgres with what was produced. It holds tests only.
//
// # Overview
//
// A broker runs in a process of its own, Postgres is a real server. Writers put changes into three topics while bridges read them and die:
// an upsert topic (inserts, updates, deletes, re-inserts of the same keys), the same in debezium-json, where an update is two messages, and
// an append topic without a key, three partitions each, all in transactions of which some are aborted. What an aborted transaction holds would
// be wrong if it ever took effect. Some messages are bad (letters_test.go), and bridges keep them as dead letters.
//
// # Where bridges die
//
// At named steps: the test binary runs itself as a bridge that kills itself at the nth occurrence of a step, in a hook of the
// checkpoint protocol, at bytes on the wire to Postgres (COMMIT not sent, half of it sent, sent, answered), or at a request to the
// broker. And at random moments: the real flinksink run is killed by its parent, alone, with two lanes, and as one of two processes of
// the bridge.
//
// # What bridges survive
//
// A zombie stops itself with SIGSTOP at a named step; an heir takes its partitions over and saves all of them; then the zombie is woken
// and goes on with what it was about to send. With dynamic membership it loses its partitions and joins the group again. With an
// instance id of its own too; where the heir has the zombie's instance id, one of the two is thrown out of the group and ends. In a third
// setting the heir's role may not end the zombie's backend, and waits until the server does. Nothing is asserted about how long an heir
// takes, but that it saves while the zombie is stopped; the log tells the slowest.
//
// Postgres is killed with SIGKILL under running bridges, and started again; connections to the broker are cut between and within
// messages; processes join, leave, crash and stall in one group. No bridge may end of these.
//
// # Other targets
//
// The real flinksink run into Kafka, S3 and Elasticsearch is killed by stand-ins of these servers, in the test's process, at a chosen request: before it
// is carried out, or after it and before its answer (targets_test.go). No Postgres is needed for that. What they hold at the end is compared with the
// oracle row by row; the topic has to have as many records as there were changes, and the files of the bucket have no row twice at any time.
//
// A bridge into all four at once is killed too, by proxies in front of S3 and Elasticsearch and by the stand-in of Kafka, so that some of its sinks have a checkpoint
// and the others do not (four_test.go). It takes a real Postgres, and of the others the real servers that FLINKSINK_S3 and FLINKSINK_ELASTIC name. With FLINKSINK_LONG=1
// it is killed once more with the broker that FLINKSINK_KAFKA names, by a relay in front of it.
//
// # What is compared
//
// The oracle is fed by the writers, with the offsets that the broker answered them; no decoder of ours has a part in it. After
// every death one snapshot of Postgres is compared with it: the tables have to be what the oracle says for exactly the stored
// positions, which never go back. A trigger notes every row of the keyed table that does not move forward, so that a change that takes
// effect twice is seen although it leaves the row as it was. The dead letters have to be the bad messages below the positions, each
// once, and no other. At the end everything is compared row by row, and the positions with the
// last stable offsets. A step that no bridge died at is a failure too.
//
// # Settings
//
// FLINKSINK_POSTGRES names the server and is required; FLINKSINK_KAFKA adds runs with a real Kafka broker; FLINKSINK_LONG=1 has
// more rounds; FLINKSINK_SEED repeats what was produced and where bridges were to die, though not the moments of the random ones.
// Processes are stopped only where there is SIGSTOP, so not on Windows.
//
// # Not covered
//
// Brokers that die, machines that lose power. Zombies that are stopped within a message to Postgres while nobody may end their backend: what
// they hold is held until they go on.
package killtest
