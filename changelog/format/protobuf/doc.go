// Package protobuf reads and writes Flink's format 'protobuf': a row is one message by itself, without a length or a schema id.
//
// # Overview
//
// Flink takes the message type from a Java class, which the option 'message-class-name' names. Here it comes from descriptors: [Load] reads
// .proto files and descriptor sets (protoc --include_imports --descriptor_set_out), and a program that has generated Go code passes
// protoregistry.GlobalFiles. The option stays as it is in the table: the message is found by the name that protoc's Java code has for it
// (java_package, java_outer_classname and java_multiple_files count; a nested class is written with $ or with a dot), else by its full
// protobuf name.
//
//	files, err := protobuf.Load(ctx, "shop.proto")
//	...
//	decoder, err := format.New(table, []changelog.Format{protobuf.Format{Files: files}}, nil)
//
// Decoders and encoders agree with Flink 2.2. A column is a field of the same name; fields without a column are left out. A field that is
// absent is NULL in proto2. In proto3 a scalar, also one that is optional or in a oneof, is its default and never NULL; messages, repeated fields
// and maps are NULL. With 'read-default-values' everything has a default, and in proto3 so it has before Flink 1.20. An enum is its name in a
// text column and its number in an INT. NULL is written as an absent field; inside an ARRAY or MAP, where nothing can be absent, as the type's
// default, a text as 'write-null-string-literal'. Where several columns of a oneof are set, the last one is written.
//
// # Guesses
//
// Flink guesses silently in these cases, and a decoder reports a [*changelog.DataError] instead unless its Payload is Lenient:
//
//   - a field of the table whose bytes are of another wire type, so that it has another type for the writer (Flink: as if absent);
//   - an integer beyond its type (Flink: its lower bits), a bool that is neither 0 nor 1 (Flink: TRUE);
//   - an enum's number that has no name (Flink: the text UNRECOGNIZED in proto3, as if absent in proto2);
//   - text of proto2 that is not UTF-8 (Flink: U+FFFD);
//   - a message of a oneof that is there again after another member (Flink: merged with what was there before);
//   - a key that is twice in a map (Flink: the last one).
//
// An encoder reports an enum's name or number that the type does not have (Flink: the first constant).
//
// # Failure
//
// A message that protobuf-java cannot parse is an error; with 'ignore-parse-errors' it holds no row. So it is with Kafka's null.
//
// # Not covered
//
// Columns of proto2 groups are ROWs, which Flink cannot do.
package protobuf
