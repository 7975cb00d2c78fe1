package protobuf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Load reads message types from paths: a .proto file, which may import files of its own folder; a folder, whose .proto files, also those of folders
// below it, are all read and import one another by their names from there; or any other file, which is a descriptor set. Google's well-known types need no
// file. The paths may share files, but not hold two different ones under one name.
func Load(ctx context.Context, paths ...string) (*protoregistry.Files, error) {
	if len(paths) == 0 {
		return nil, errors.New("protobuf: no file with message types was named; pass .proto files, a folder of them, or a descriptor set")
	}
	all := &protoregistry.Files{}
	for _, path := range paths {
		files, err := load(ctx, path)
		if err == nil {
			files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
				err = register(all, fd)
				return err == nil
			})
		}
		if err != nil {
			return nil, fmt.Errorf("protobuf: %s: %w", path, err)
		}
	}
	return all, nil
}

func load(ctx context.Context, path string) (*protoregistry.Files, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	root, names := filepath.Dir(path), []string{filepath.Base(path)}
	switch {
	case info.IsDir():
		root, names = path, nil
		err := fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(name, ".proto") {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, errors.New("the folder has no .proto file")
		}
	case !strings.HasSuffix(path, ".proto"):
		set, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return parseSet(set)
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}})}
	compiled, err := c.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	// The compiler's own descriptors hold the sources.
	var set descriptorpb.FileDescriptorSet
	met := map[string]bool{}
	for _, fd := range compiled {
		collect(&set, met, fd)
	}
	return protodesc.NewFiles(&set)
}

func collect(set *descriptorpb.FileDescriptorSet, met map[string]bool, fd protoreflect.FileDescriptor) {
	if met[fd.Path()] {
		return
	}
	met[fd.Path()] = true
	for i := range fd.Imports().Len() {
		collect(set, met, fd.Imports().Get(i).FileDescriptor)
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
}

// ParseDescriptorSet returns the message types of a serialized FileDescriptorSet, which has to hold the files that its files import.
func ParseDescriptorSet(set []byte) (*protoregistry.Files, error) {
	files, err := parseSet(set)
	if err != nil {
		return nil, fmt.Errorf("protobuf: %w", err)
	}
	return files, nil
}

func parseSet(set []byte) (*protoregistry.Files, error) {
	var fds descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &fds); err != nil {
		return nil, fmt.Errorf("not a descriptor set (protoc --include_imports --descriptor_set_out): %w", err)
	}
	if len(fds.File) == 0 {
		return nil, errors.New("the descriptor set is empty")
	}
	files, err := protodesc.NewFiles(&fds)
	if err != nil {
		return nil, fmt.Errorf("the descriptor set is not whole: %w; make it with --include_imports", err)
	}
	return files, nil
}

// register adds fd and what it imports, unless they are there.
func register(files *protoregistry.Files, fd protoreflect.FileDescriptor) error {
	if _, err := files.FindFileByPath(fd.Path()); err == nil {
		return nil
	}
	for i := range fd.Imports().Len() {
		if err := register(files, fd.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return files.RegisterFile(fd)
}

// find returns the message that Flink would take for a Java class.
func find(files *protoregistry.Files, class string) (protoreflect.MessageDescriptor, error) {
	if files == nil {
		return nil, errors.New("there are no message types: set Format.Files to the .proto files, or the descriptor set, that the class was made of")
	}
	want := strings.ReplaceAll(class, "$", ".")
	var found []protoreflect.MessageDescriptor
	var known []string
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		pkg, outer := javaNames(fd)
		eachMessage(fd.Messages(), func(m protoreflect.MessageDescriptor) {
			name := strings.TrimPrefix(string(m.FullName()), string(fd.Package())+".")
			java := pkg + outer + name
			if java == want {
				found = append(found, m)
			}
			if !strings.HasPrefix(string(fd.Path()), "google/protobuf/") {
				known = append(known, java)
			}
		})
		return true
	})
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if d, err := files.FindDescriptorByName(protoreflect.FullName(want)); err == nil {
			if m, ok := d.(protoreflect.MessageDescriptor); ok {
				return m, nil
			}
		}
		const most = 10
		slices.Sort(known)
		list := strings.Join(known[:min(most, len(known))], ", ")
		if len(known) > most {
			list += fmt.Sprintf(" and %d more", len(known)-most)
		}
		if list == "" {
			list = "there are none"
		}
		return nil, fmt.Errorf("option 'message-class-name' is '%s', which is none of the message types that were given: %s", class, list)
	}
	return nil, fmt.Errorf("option 'message-class-name' is '%s', which is the Java class of %s and of %s; leave one of their files out", class, found[0].FullName(), found[1].FullName())
}

func eachMessage(ms protoreflect.MessageDescriptors, do func(protoreflect.MessageDescriptor)) {
	for i := range ms.Len() {
		if m := ms.Get(i); !m.IsMapEntry() {
			do(m)
			eachMessage(m.Messages(), do)
		}
	}
}

// javaNames returns what stands before the names of a file's messages in protoc's Java code, each part with its dot.
func javaNames(fd protoreflect.FileDescriptor) (pkg, outer string) {
	pkg = string(fd.Package())
	o, _ := fd.Options().(*descriptorpb.FileOptions)
	if o.GetJavaPackage() != "" {
		pkg = o.GetJavaPackage()
	}
	if pkg != "" {
		pkg += "."
	}
	switch {
	case o.GetJavaMultipleFiles():
	case o.GetJavaOuterClassname() != "":
		outer = o.GetJavaOuterClassname() + "."
	default:
		outer = outerClass(fd) + "."
	}
	return pkg, outer
}

// outerClass is the name that protoc makes of the file's: in camel case, with OuterClass behind it where something in the file is called so.
func outerClass(fd protoreflect.FileDescriptor) string {
	base := fd.Path()[strings.LastIndexByte(fd.Path(), '/')+1:]
	base = strings.TrimSuffix(base, ".proto")
	var b strings.Builder
	upper := true
	for i := range len(base) {
		c := base[i]
		switch {
		case 'a' <= c && c <= 'z':
			if upper {
				c -= 'a' - 'A'
			}
			b.WriteByte(c)
			upper = false
		case 'A' <= c && c <= 'Z':
			b.WriteByte(c)
			upper = false
		case '0' <= c && c <= '9':
			b.WriteByte(c)
			upper = true
		default:
			upper = true
		}
	}
	name := b.String()
	taken := fd.Services().ByName(protoreflect.Name(name)) != nil
	var enums func(es protoreflect.EnumDescriptors)
	enums = func(es protoreflect.EnumDescriptors) { taken = taken || es.ByName(protoreflect.Name(name)) != nil }
	enums(fd.Enums())
	eachMessage(fd.Messages(), func(m protoreflect.MessageDescriptor) {
		taken = taken || string(m.Name()) == name
		enums(m.Enums())
	})
	if taken {
		name += "OuterClass"
	}
	return name
}
