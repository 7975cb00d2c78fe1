// Package elastic writes changes into an Elasticsearch index that converges to the table, and never goes backwards.
//
// # Guarantee
//
// Elasticsearch has no transaction over documents, so this sink is convergent ([sink.Convergent]), not exactly once: a row may be seen
// before its checkpoint is decided, and is written again after a crash, but the end state is that of the table. What makes it so:
//
//   - The document's _id follows from the row's key alone (or, without a key, from topic, partition, offset and index of the change), so
//     writing a change twice makes one document.
//   - Each write carries an external version, (incarnation << 48) | offset, with version_type external_gte: the server refuses a change
//     that is older than what it has. A replay, a retry whose first answer was lost, and a process that was stopped and wakes up can
//     therefore only write what is there already or be refused.
//   - The incarnation comes with the claim and rises when a topic is made anew or somebody rewinds on purpose, so that smaller offsets win again.
//   - [Committer.Prepare] returns when the server has answered for every document of the checkpoint. Only then are the positions saved.
//
// The store of the bridge is another one: this sink decides nothing.
//
// # Deletes
//
// The server forgets the version of a deleted document: after index.gc_deletes (60 s by default), and at once when a shard is restarted or
// moves, whatever the setting (seen on 7.17, 8.19 and 9.5). Then an older change that comes late brings the document back. So for a
// topic that can hold deletes one of two ways is chosen, see [Deletes]: Tombstone keeps a small document in place of the row, which never
// goes backwards; Hard deletes the document, stops writing where a lane cannot know that its generation is still the newest, and sends deletes again that an older write
// may have overtaken.
//
// # Many indexes
//
// The name of the index can be made from each row, see [New]. A row that an update gives another name is deleted under the old one, with the version
// of that update; so it needs a name of key columns, whose rows never move, or a format that tells the row as it was before.
//
// # Two partitions
//
// Offsets of two partitions do not compare. The sink's key has to be the topic's key, so that all changes of a key are in one partition;
// after a change of a topic's partition count the incarnation has to rise. A document that another partition wrote is told from one of
// our own and is an error, see [Options.Meta].
//
// [Committer.Prepare]: https://pkg.go.dev/github.com/flinksink/flinksink/sink#Committer
package elastic
