package main

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/protobuf"
)

// protobufColumns has no DECIMAL and no TIMESTAMP, which the format does not know: price is in cents, ordered in milliseconds.
const protobufColumns = "id BIGINT, customer STRING, item STRING, quantity INT, price BIGINT, weight DOUBLE, ordered BIGINT, note STRING"

// orderFiles has the message type Order of proto3.
func orderFiles() (*protoregistry.Files, error) {
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("order.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Order")}}}
	for i, f := range []struct {
		name string
		typ  descriptorpb.FieldDescriptorProto_Type
	}{
		{"id", descriptorpb.FieldDescriptorProto_TYPE_INT64}, {"customer", descriptorpb.FieldDescriptorProto_TYPE_STRING}, {"item", descriptorpb.FieldDescriptorProto_TYPE_STRING},
		{"quantity", descriptorpb.FieldDescriptorProto_TYPE_INT32}, {"price", descriptorpb.FieldDescriptorProto_TYPE_INT64}, {"weight", descriptorpb.FieldDescriptorProto_TYPE_DOUBLE},
		{"ordered", descriptorpb.FieldDescriptorProto_TYPE_INT64}, {"note", descriptorpb.FieldDescriptorProto_TYPE_STRING},
	} {
		file.MessageType[0].Field = append(file.MessageType[0].Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(f.name), JsonName: proto.String(f.name), Number: proto.Int32(int32(i + 1)), Type: f.typ.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		return nil, err
	}
	return protobuf.ParseDescriptorSet(set)
}

func newProtobuf() (*ours, []rival, error) {
	files, err := orderFiles()
	if err != nil {
		return nil, nil, err
	}
	desc, err := files.FindDescriptorByName("Order")
	if err != nil {
		return nil, nil, err
	}
	o, err := newOurs(protobuf.Format{Files: files}, protobufColumns, "'protobuf.message-class-name' = 'Order'")
	if err != nil {
		return nil, nil, err
	}
	o.row = func(o *order) changelog.Row {
		row := rowOf(o)
		row[4], row[6] = changelog.IntValue(int64(o.Price.lo)), changelog.IntValue(o.Ordered.sec*1000+int64(o.Ordered.nsec/1e6))
		return row
	}
	o.back = func(row changelog.Row) order {
		out := orderOf(row)
		out.Price, out.Ordered = price{lo: uint64(row[4].Int())}, millis(row[6].Int())
		return out
	}
	return o, []rival{{name: "dynamicpb of google.golang.org/protobuf", decode: dynamicOrders(desc.(protoreflect.MessageDescriptor))}}, nil
}

func millis(ms int64) wallClock { return wallClock{ms / 1000, int32(ms%1000) * 1e6} }

func dynamicOrders(desc protoreflect.MessageDescriptor) func([][]byte, *[]order) error {
	return func(messages [][]byte, into *[]order) error {
		m := dynamicpb.NewMessage(desc)
		fields := desc.Fields()
		for _, text := range messages {
			if err := proto.Unmarshal(text, m); err != nil {
				return err
			}
			get := func(i int) protoreflect.Value { return m.Get(fields.Get(i)) }
			*into = append(*into, order{
				ID: get(0).Int(), Customer: get(1).String(), Item: get(2).String(), Quantity: int32(get(3).Int()), Price: price{lo: uint64(get(4).Int())},
				Weight: get(5).Float(), Ordered: millis(get(6).Int()), Note: get(7).String(),
			})
		}
		return nil
	}
}
