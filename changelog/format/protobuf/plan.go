package protobuf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/flinksink/flinksink/changelog"
)

// message is what is known of a message that is a row: its fields, and which of them are columns. It does not change after it was made.
type message struct {
	desc     protoreflect.MessageDescriptor
	columns  []column
	fields   map[protowire.Number]*field // all of them: a message is as broken as its worst field, also where no column reads that
	dense    []*field                    // fields by number, for small numbers
	required []protowire.Number          // of proto2
	ordered  []int                       // columns by the numbers of their fields, in which order they are written
}

// field is one field of a message.
type field struct {
	desc     protoreflect.FieldDescriptor
	kind     protoreflect.Kind
	wire     protowire.Type
	repeated bool // a list or a map
	column   int  // in message.columns; -1 for none
	inner    *message
	strict   bool // text has to be UTF-8 for the message to be one
	others   []int
}

// column is a column that a field fills.
type column struct {
	*field
	slot   int // in the row; -1: it is only read to see whether it is whole
	name   string
	typ    *changelog.Type
	key    *field // of a MAP
	elem   *field // of an ARRAY: the field; the value of a MAP
	absent absence
	def    changelog.Value
}

// absence is what a column is whose field the message does not have.
type absence uint8

const (
	isNull    absence = iota
	isDefault         // column.def
	isEmpty           // an ARRAY or MAP without elements
	isRow             // a ROW of what its fields are where they are absent
	isWhole           // the same, for the value of a map, whose required fields have to be there all the same
)

// builder makes messages.
type builder struct {
	simpleDefaults, defaults bool
	plain                    map[protoreflect.FullName]*message // messages of which nothing is read
	required                 map[protoreflect.FullName]bool     // messages that have, or in which are, required fields
}

// message lays the columns called fields over a message. Slots are where they are in their row.
func (b *builder) message(desc protoreflect.MessageDescriptor, fields []changelog.Field, slots []int) (*message, error) {
	m := b.empty(desc)
	var errs []error
	for i := range fields {
		name := fields[i].Name
		fd := desc.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			errs = append(errs, fmt.Errorf("column %s: %s has no field of this name; its fields are %s", name, desc.FullName(), fieldNames(desc)))
			continue
		}
		f := m.fields[fd.Number()]
		if f.column >= 0 {
			errs = append(errs, fmt.Errorf("column %s is there twice", name))
			continue
		}
		c, err := b.column(f, &fields[i].Type)
		if err != nil {
			errs = append(errs, fmt.Errorf("column %s: %w", name, err))
			continue
		}
		c.slot, c.name = slots[i], name
		f.column = len(m.columns)
		m.columns = append(m.columns, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	b.rest(m)
	return m, nil
}

func fieldNames(desc protoreflect.MessageDescriptor) string {
	const most = 30
	var names []string
	for i := range min(most, desc.Fields().Len()) {
		names = append(names, string(desc.Fields().Get(i).Name()))
	}
	if n := desc.Fields().Len(); n > most {
		return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(names, ", ")
}

// empty makes a message without columns.
func (b *builder) empty(desc protoreflect.MessageDescriptor) *message {
	m := &message{desc: desc, fields: map[protowire.Number]*field{}}
	for i := range desc.Fields().Len() {
		fd := desc.Fields().Get(i)
		m.fields[fd.Number()] = newField(fd)
		if fd.Cardinality() == protoreflect.Required {
			m.required = append(m.required, fd.Number())
		}
	}
	return m
}

func newField(fd protoreflect.FieldDescriptor) *field {
	return &field{
		desc: fd, kind: fd.Kind(), wire: wireType(fd.Kind()), column: -1,
		repeated: fd.IsList() || fd.IsMap(),
		strict:   fd.Kind() == protoreflect.StringKind && checksText(fd),
	}
}

// checksText reports whether protobuf-java refuses text that is not UTF-8 when it parses: everywhere but in proto2, and there in maps, and
// where the file wants it.
func checksText(fd protoreflect.FieldDescriptor) bool {
	o, _ := fd.ParentFile().Options().(*descriptorpb.FileOptions)
	return fd.ParentFile().Syntax() != protoreflect.Proto2 || fd.ContainingMessage().IsMapEntry() || o.GetJavaStringCheckUtf8()
}

// rest finishes a message whose columns are known.
func (b *builder) rest(m *message) {
	for i := range m.desc.Fields().Len() {
		fd := m.desc.Fields().Get(i)
		f := m.fields[fd.Number()]
		if fd.Message() != nil && f.inner == nil {
			f.inner = b.unread(fd.Message())
		}
		if f.column < 0 && fd.Message() != nil && !f.repeated && b.requires(fd.Message()) {
			// Whether such a message is whole is only known of all its occurrences together.
			f.column = len(m.columns)
			c := column{field: f, slot: -1, name: string(fd.Name())}
			if m.desc.IsMapEntry() {
				c.absent = isWhole
			}
			m.columns = append(m.columns, c)
		}
	}
	for i := range m.desc.Fields().Len() {
		fd := m.desc.Fields().Get(i)
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
			f := m.fields[fd.Number()]
			for k := range o.Fields().Len() {
				if other := m.fields[o.Fields().Get(k).Number()]; other != f && other.column >= 0 {
					f.others = append(f.others, other.column)
				}
			}
		}
	}
	const dense = 64
	m.dense = make([]*field, dense)
	for n, f := range m.fields {
		if n < dense {
			m.dense[n] = f
		}
	}
	for i := range m.columns {
		if m.columns[i].slot >= 0 {
			m.ordered = append(m.ordered, i)
		}
	}
	slices.SortFunc(m.ordered, func(x, y int) int { return int(m.columns[x].desc.Number()) - int(m.columns[y].desc.Number()) })
}

// unread returns a message of which nothing is read. A message may hold itself.
func (b *builder) unread(desc protoreflect.MessageDescriptor) *message {
	if m := b.plain[desc.FullName()]; m != nil {
		return m
	}
	m := b.empty(desc)
	b.plain[desc.FullName()] = m
	b.rest(m)
	return m
}

// requires reports whether desc has required fields, or can hold a message that has.
func (b *builder) requires(desc protoreflect.MessageDescriptor) bool {
	if r, ok := b.required[desc.FullName()]; ok {
		return r
	}
	met := map[protoreflect.FullName]bool{}
	var look func(protoreflect.MessageDescriptor) bool
	look = func(d protoreflect.MessageDescriptor) bool {
		if met[d.FullName()] {
			return false
		}
		met[d.FullName()] = true
		for i := range d.Fields().Len() {
			fd := d.Fields().Get(i)
			if fd.Cardinality() == protoreflect.Required || fd.Message() != nil && look(fd.Message()) {
				return true
			}
		}
		return false
	}
	r := look(desc)
	b.required[desc.FullName()] = r
	return r
}

// column checks a column's type as PbSchemaValidationUtils does, and for what Flink fails at later.
func (b *builder) column(f *field, t *changelog.Type) (c column, err error) {
	c = column{field: f, typ: t}
	fd := f.desc
	switch {
	case fd.IsMap():
		if t.Root != changelog.RootMap {
			return c, fmt.Errorf("the field is a map, which is no %s; make it a MAP", t)
		}
		c.key, c.elem = newField(fd.MapKey()), newField(fd.MapValue())
		if err := simple(fd.MapKey(), t.Key); err != nil {
			return c, fmt.Errorf("key: %w", err)
		}
		err = b.value(c.elem, t.Elem)
		entry := b.empty(fd.Message())
		entry.fields[1], entry.fields[2] = c.key, c.elem
		entry.columns = []column{{field: c.key, slot: 0, name: "key", typ: t.Key, def: initial(fd.MapKey(), t.Key)}, {field: c.elem, slot: 1, name: "value", typ: t.Elem, def: initial(fd.MapValue(), t.Elem)}}
		c.key.column, c.elem.column = 0, 1
		for i := range entry.columns {
			entry.columns[i].absent = isDefault
		}
		if c.elem.inner != nil {
			entry.columns[1].absent = isWhole
		}
		if err == nil {
			b.rest(entry)
		}
		f.inner = entry
		c.absent = isNull
		if b.defaults {
			c.absent = isEmpty
		}
	case fd.IsList():
		if t.Root != changelog.RootArray {
			return c, fmt.Errorf("the field is repeated, which is no %s; make it an ARRAY", t)
		}
		c.elem = f
		err = b.value(f, t.Elem)
		if b.defaults {
			c.absent = isEmpty
		}
	default:
		err = b.value(f, t)
		switch {
		case fd.Message() != nil && b.defaults:
			c.absent = isRow
		case fd.Message() == nil && (b.simpleDefaults || !fd.HasPresence()):
			c.absent, c.def = isDefault, initial(fd, t)
		}
	}
	return c, err
}

// value checks the type of one value, and makes the message that it is.
func (b *builder) value(f *field, t *changelog.Type) (err error) {
	if f.desc.Message() == nil {
		return simple(f.desc, t)
	}
	if t.Root != changelog.RootRow {
		return fmt.Errorf("the field is the message %s, which is no %s; make it a ROW", f.desc.Message().FullName(), t)
	}
	slots := make([]int, len(t.Fields))
	for i := range slots {
		slots[i] = i
	}
	f.inner, err = b.message(f.desc.Message(), t.Fields, slots)
	return err
}

func simple(fd protoreflect.FieldDescriptor, t *changelog.Type) error {
	var takes []changelog.Root
	names := ""
	switch fd.Kind() {
	case protoreflect.BoolKind:
		takes, names = []changelog.Root{changelog.RootBoolean}, "BOOLEAN"
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		takes, names = []changelog.Root{changelog.RootInt}, "INT"
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		takes, names = []changelog.Root{changelog.RootBigInt}, "BIGINT"
	case protoreflect.FloatKind:
		takes, names = []changelog.Root{changelog.RootFloat}, "FLOAT"
	case protoreflect.DoubleKind:
		takes, names = []changelog.Root{changelog.RootDouble}, "DOUBLE"
	case protoreflect.StringKind:
		takes, names = []changelog.Root{changelog.RootVarchar, changelog.RootChar}, "STRING"
	case protoreflect.BytesKind:
		takes, names = []changelog.Root{changelog.RootVarbinary, changelog.RootBinary}, "BYTES"
	case protoreflect.EnumKind:
		takes, names = []changelog.Root{changelog.RootVarchar, changelog.RootChar, changelog.RootInt}, "STRING (its name) or INT (its number)"
	}
	if !slices.Contains(takes, t.Root) {
		return fmt.Errorf("the field is %s, which is no %s; make it %s", fd.Kind(), t, names)
	}
	return nil
}

// initial is the value that an absent field has.
func initial(fd protoreflect.FieldDescriptor, t *changelog.Type) changelog.Value {
	d := fd.Default()
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return changelog.BoolValue(d.Bool())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return changelog.IntValue(d.Int())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return changelog.IntValue(int64(int32(d.Uint())))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return changelog.IntValue(int64(d.Uint()))
	case protoreflect.FloatKind:
		return changelog.FloatValue(float32(d.Float()))
	case protoreflect.DoubleKind:
		return changelog.DoubleValue(d.Float())
	case protoreflect.StringKind:
		return changelog.StringValue(d.String())
	case protoreflect.BytesKind:
		return changelog.BytesValue(d.Bytes())
	case protoreflect.EnumKind:
		ev := fd.DefaultEnumValue()
		if ev == nil {
			ev = fd.Enum().Values().Get(0)
		}
		return enumValue(ev, t)
	}
	return changelog.Value{}
}

func enumValue(ev protoreflect.EnumValueDescriptor, t *changelog.Type) changelog.Value {
	if t.Root == changelog.RootInt {
		return changelog.IntValue(int64(ev.Number()))
	}
	return changelog.StringValue(string(ev.Name()))
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}
