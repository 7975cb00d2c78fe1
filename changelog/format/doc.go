// Package format makes a decoder and an encoder of the records of a topic from a Flink table and the wire formats that the caller passes.
//
// # Overview
//
// [New] reads the options of a CREATE TABLE as Flink's connectors 'kafka' and 'upsert-kafka' do: which columns are in the
// key and which in the value, in which formats, with which of their options. The [Decoder] then puts the rows together.
//
//	table, err := ddl.Find(createTable, "orders")
//	d, err := format.New(table, []changelog.Format{json.Format{}, raw.Format{}}, nil)
//	batch := changelog.NewBatch(d.Table())
//	err = d.Decode(batch, &record) // batch.Changes has the record's changes, zero or more, at its end
//
// A program that does not know which formats its tables name passes all.Formats(), of package changelog/format/all.
//
// [NewEncoder] is the other direction: the [Encoder] makes the records that Flink's sink would, byte for byte.
//
// # What a record becomes
//
// On 'kafka' the value's rows are the changes, with the kinds that the value format gives them. On 'upsert-kafka' every row is an Insert, as
// Flink's source hands it on before its planner sees it: it means an upsert, and there is never an UpdateAfter. A null value is a
// Delete that knows its key only.
//
// Key columns are filled from the record's key, then value columns from the value; with 'value.fields-include' = 'ALL' the value's
// copy of a key column wins, also where the value does not have it. A key or a value may hold several rows (a JSON array): each
// row of the value then comes once with each row of the key.
//
// # What a change becomes
//
// On 'upsert-kafka' a +I or +U is a record, and a -U or -D is a null value under its key. On 'kafka' a format without kinds writes +I only, and
// one with kinds writes them as it can. METADATA columns headers, header-list and timestamp that are not VIRTUAL become those of the
// record; the topic and the partition are the caller's business.
//
// # Guesses
//
// Where Flink drops a record or makes up a row, Decode returns a [*changelog.DataError], unless Options.Lenient asks for Flink's answer:
//
//   - a null key, and a key without a row, where a key format is declared (Flink drops the record);
//   - a null value on 'kafka' in a format that has no kinds, and a value without content (Flink drops the record);
//   - on 'upsert-kafka', a broken value that 'ignore-parse-errors' lets pass (Flink deletes the key);
//   - on 'upsert-kafka', a row whose key column is NULL or is not what the record's key says. Flink takes the value's, and no
//     tombstone would ever find that row;
//   - on 'kafka' with a PRIMARY KEY, a row whose key column is NULL or was not sent.
//
// Encode returns one for a row of 'upsert-kafka' whose key column is NULL, and for one that its format writes as null.
//
// A header that occurs several times has one entry in the metadata column 'headers', the last one, as in Flink: a MAP holds no more.
// 'header-list' has all.
//
// # Originals
//
// A [Decoder] can keep the values of messages beside their changes ([changelog.Batch].KeepOriginals), for a sink that hands them on. It does so in formats that tell of each
// message whether its rows are all that it says ([WholeDecoder]); [changelog.Table].Encoding tells which tables may exchange values.
//
// # Versions and replays
//
// Options.FlinkVersion follows another release of Flink where it reads or writes something else. [NewReplayGuard] makes a decoder that leaves out
// what a restarted source sends again.
//
// # Not covered
//
// Options that concern neither key nor value (properties.*, scan.*, sink.*) are not looked at, but for the few with which Flink makes no
// sink. 'sink.buffer-flush.*' makes no difference: each change is a record. Computed columns are not in the rows.
package format
