// Package otelbridge gives OpenTelemetry metrics of bridges. It needs the metric API only: which SDK, readers and exporters there are
// is the program's choice. Whoever does not import it links nothing of OpenTelemetry.
//
// # Overview
//
// [Observe] reads what [bridge.Bridge.Status] says whenever metrics are collected; [Hooks] count and time what the status does not hold.
//
//	hooks, err := otelbridge.Hooks(meter, "orders", bridge.Hooks{})
//	...
//	b, err := bridge.New("orders", from, to, &bridge.Options{Hooks: hooks})
//	...
//	reg, err := otelbridge.Observe(meter, b)
//	...
//	defer reg.Unregister()
//
// # Metrics of Observe
//
//	name                          kind     unit          by         what
//	flinksink.bridge.running      gauge    1                        1 while Run is in progress, else 0
//	flinksink.messages            counter  {message}                messages that decided checkpoints passed, each once
//	flinksink.changes             counter  {change}      outcome    changes that decided checkpoints account for; summed over all outcomes, those read
//	flinksink.checkpoints         counter  {checkpoint}             checkpoints that were decided
//	flinksink.checkpoint.age      gauge    s                        since the last of them, or since Run was called
//	flinksink.retries             counter  {retry}                  tries again after failures
//	flinksink.lane.failing        gauge    s             lane       for how long it has failed and tried again, 0: it works
//	flinksink.lane.uncommitted    gauge    1             lane       1 while a decided checkpoint cannot be committed, else 0
//	flinksink.lane.buffered       gauge    By            lane       fetched and not yet written
//	flinksink.sink.pending        gauge    s             lane, sink for how long a decided checkpoint has waited to be committed, 0: none does
//	flinksink.partition.position  gauge    {offset}      partition  position of the last decided checkpoint
//	flinksink.partition.lag       gauge    {offset}      partition  offsets between that and the end of the partition
//	flinksink.partition.waiting   gauge    {offset}      partition  offsets that cannot be read, because of an open transaction before them
//	flinksink.partition.standing  gauge    s             partition  for how long nothing was saved although there is more to read, 0: it moves
//
// Counters count since the process began, over every Run; what the end of one Run added after the last collection before the next Run is
// lost to them. Gauges but the first are reported while the bridge runs, and left out for what is not known yet.
//
// # Metrics of Hooks
//
//	name                          kind       unit          by          what
//	flinksink.checkpoint.duration histogram  s             step        how long a checkpoint's prepare, save and commit took
//	flinksink.checkpoint.aborted  counter    {checkpoint}  error.type  what was written and discarded, to be done again or given up
//	flinksink.alarms              counter    {alarm}       error.type  alarms of a decided checkpoint that cannot be committed
//	flinksink.fenced              counter    {fence}                   lanes that found another generation owning their partitions
//	flinksink.data_errors         counter    {record}                  records that cannot be decoded or written, halts and dropped ones
//	flinksink.rebalances          counter    {rebalance}   kind        how often the group gave partitions, took them, or gave them up for lost
//	flinksink.written             counter    {change}      table       changes that every sink took, those of checkpoints that were aborted too
//	flinksink.written.size        counter    By            table       their size in memory
//
// # Attributes
//
// Names follow the semantic conventions for messaging where these have one for the thing:
//
//	messaging.system                    "kafka", on all
//	messaging.consumer.group.name       on all of Observe
//	messaging.destination.name          by partition: the topic
//	messaging.destination.partition.id  by partition: its number, as text
//	error.type                          the error's class in package sink, such as "transient"; "_OTHER" for none
//	flinksink.bridge                    the bridge's name, on all
//	flinksink.lane                      by lane: its number
//	flinksink.sink                      by sink: its declared name
//	flinksink.change.outcome            applied, superseded, dead_lettered, skipped
//	flinksink.checkpoint.step           prepare, save, commit
//	flinksink.rebalance.kind            assigned, revoked, lost
//	flinksink.table                     by table: its name in the CREATE TABLE
//
// The conventions' metrics themselves (messaging.client.consumed.messages and its like) count deliveries, which a redone checkpoint repeats.
// They belong to the client's instrumentation and are not used here, so that nothing is counted twice under one name.
//
// # Not covered
//
// Traces. Each process reports its own partitions; sum over processes for a whole bridge.
package otelbridge
