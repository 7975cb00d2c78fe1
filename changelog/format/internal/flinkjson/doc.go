// Package flinkjson reads and writes JSON as Flink 2.2's converters do. The format json is made of it, and so are the formats that put
// rows of JSON into an envelope.
//
// # Reading
//
// [Decoder] reads messages that are rows. Two readers stand behind it. The plain one is a scanner driven by the schema, in one pass and
// without an allocation for a scalar; it takes messages that are clean JSON and fit their types, which is nearly all. Whatever it does
// not take, however slight the oddness, is read again by the exact one, which follows Flink's JsonParserToRowDataConverters over
// Jackson's tokens step by step, their slips included. The plain reader's answer is always the exact one's; a test holds that.
//
// [Envelope] reads messages that hold rows at some depth. Flink reads those by another set of rules, JsonToRowDataConverters over a
// tree of Jackson's nodes, and so the exact reader has these rules too. An [Outline] says where in a message the rows are, so that the plain
// reader can take such messages as well.
//
// A message takes a bounded multiple of its size in memory, and a tree a bounded number of nodes. What nobody asks for is skipped without a node where the rules
// are not those of trees, and an array or object in a STRING column is written as text while it is read.
//
// # Writing
//
// [Encoder] writes rows as RowDataToJsonConverters and Jackson's generator do, byte for byte.
package flinkjson
