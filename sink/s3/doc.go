// Package s3 writes a bridge's changes as objects into S3, or into a server that speaks its protocol, exactly once, and keeps a bridge's checkpoints in a bucket
// ([Store]).
//
// # Overview
//
// A lane writes one file at a time for each folder, of a [Format]: JSON lines by default, CSV and raw by [Lines], Parquet and Avro by the packages below
// this one. In mode [Multipart] a file is an upload whose parts go to the server as changes arrive; Prepare sends what is left, and Commit
// completes the upload. In mode [Rename] it is an object under _staging/, which Commit copies to its name. Every checkpoint ends all files, so their
// size follows the bridge's checkpoint interval. A bridge that writes files alone has one of five minutes unless its options say otherwise, whatever passes
// meanwhile ([sink.Pacer]); beside other sinks the interval is theirs, so give a lake a bridge of its own, or merge its files ([Compact]).
//
//	PREFIX/TABLE/[COLUMN=VALUE/...]BRIDGE.SINK.p0-7.gGENERATION.cCHECKPOINT.SEQUENCE.RANDOM.jsonl.gz
//	PREFIX/_flinksink/...   fences, long receipts, manifests, dead letters, merged files, stored checkpoints
//	PREFIX/_staging/...     of mode Rename
//
// # Guarantees
//
// Each change is in one visible object, once, and in none before its checkpoint is decided. The files of a checkpoint become visible one after the
// other. With Options.Manifest an object names them all once all are visible; who reads by it ([Reader], or any program that reads those
// objects of JSON) sees all of a checkpoint or nothing.
//
// Whether a commit was done is read from the object itself, whose metadata holds a token that was set when the upload was begun, and never from the
// status of an answer. A generation that has ended finds a fence object and is refused in Prepare; what it had prepared is aborted by the Open of
// its successor, found by name. So the sink needs no conditional writes; the Store does, and probes the server for them.
//
// # Kinds
//
// By default only tables that insert are taken. [Changelog] writes every change as a row with its kind and position, [Upsert] the last change of each key
// in a file. A column that the source did not send is refused: a file holds whole rows.
//
// # Dead letters
//
// The sink keeps dead letters: a file of their own in each checkpoint that has some, of JSON lines, visible with it. [Reader.DeadLetters] reads them.
//
// # Beside the bridge
//
// [Compact] merges small files of old checkpoints for readers by manifest. [Success] marks folders whose time is over with _SUCCESS. Both are
// functions that a timer or an operator calls, from anywhere.
//
// # Required settings
//
// The right to list the bucket and its uploads, to get, put and delete objects, and to abort uploads. A lifecycle rule that aborts incomplete uploads
// must leave them longer than a bridge may be away with a decided checkpoint: a week, not a day. Such a rule is worth having, as a bridge that never comes
// back leaves parts that are paid for; [Sink.SuggestLifecycle] says whether the bucket has one. No rule may delete objects under _flinksink/. Buckets with Object Lock need
// Settings.Checksum. Keys have 1024 bytes in all, so folders of PartitionBy have to leave room for a name of up to 230.
//
// Customer-provided keys (SSE-C) are not supported, and neither are directory buckets (S3 Express), whose listings have no order.
//
// # Failure
//
// A decided upload that was aborted by hand or by a rule is [sink.ErrLost], with the offsets. An object of another writer under a name of ours is
// ErrConfig: move it away. Throttling, and credentials that expired, are tried again.
//
// versitygw 1.8.0, killed in the middle of a completion, answers 200 to it ever after, and makes no object. The commit is [sink.ErrUncertain] and is tried again, with
// alarms; after some minutes, when no completion can be under way any more, the upload is completed by the name that the server left it under. Mode Rename does not have
// that, as a copy is one step there.
//
// What stays for ever: a fence of some bytes for each generation, a receipt of each checkpoint with more than about a hundred files or a
// thousand parts, manifests, and what was merged by which call of Compact. Fences of a bridge that is over can be deleted with its folder under _flinksink/.
package s3
