package format_test

import (
	"context"
	"path/filepath"

	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/flinksink/flinksink/changelog/format/protobuf"
)

// protoFiles are the message types of the captured topics.
func protoFiles() *protoregistry.Files {
	files, err := protobuf.Load(context.Background(), filepath.Join(flinkDir, "proto"))
	if err != nil {
		panic(err)
	}
	return files
}
