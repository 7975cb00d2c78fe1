// Package format makes a decoder of the records of a topic from a Flink table and the wire formats that the caller passes.
//
// # Overview
//
// [New] reads the options of a CREATE TABLE as Flink's connectors 'kafka' and 'upsert-kafka' do: which columns are in the
// key and which in the value, in which formats, with which of their options. The [Decoder] then puts the rows together.
//
//	d, err := format.New(table, []changelog.Format{json.Format{}, raw.Format{}}, nil)
//	err = d.Decode(batch, &record)
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
// # Guesses
//
// Where Flink drops a record or makes up a row, Decode returns a [*changelog.DataError], unless Options.Lenient asks for Flink's answer:
//
//   - a null key, and a key without a row, where a key format is declared (Flink drops the record);
//   - a null value on 'kafka' in a format that has no kinds, and a value without content (Flink drops the record);
//   - on 'upsert-kafka', a broken value that 'ignore-parse-errors' lets pass (Flink deletes the key);
//   - on 'upsert-kafka', a row whose key column is NULL or is not what the record's key says. Flink takes the value's, and no
//     tombstone would ever find that row.
//
// A header that occurs several times has one entry in the metadata column 'headers', the last one, as in Flink: a MAP holds no more.
// 'header-list' has all.
//
// # Not covered
//
// Options that concern neither key nor value (properties.*, scan.*, sink.*) are not looked at. Computed columns are not in the rows.
package format
