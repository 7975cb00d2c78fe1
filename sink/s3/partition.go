package s3

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// PartitionField is one level of folders: name=value, as Hive writes it. The column stays in the files.
type PartitionField struct {
	// Column is the column whose value names the folder. NULL and the empty text are __HIVE_DEFAULT_PARTITION__, as in Hive.
	Column string
	// Name of the folder. Defaults to Column; required with Layout.
	Name string
	// Layout formats a DATE, TIMESTAMP or TIMESTAMP_LTZ, as package time does: "2006-01-02", "15". A TIMESTAMP_LTZ is read in UTC, a
	// TIMESTAMP as it stands. Defaults to the text of the value, as Flink's CAST gives it.
	Layout string
}

const (
	nullPartition = "__HIVE_DEFAULT_PARTITION__"
	maxFolder     = 240
)

func (f PartitionField) check() error {
	switch {
	case f.Column == "":
		return errors.New("Column is empty")
	case f.Layout != "" && f.Name == "":
		return fmt.Errorf("Name is empty: say what the folders of column %q are called, such as \"day\"", f.Column)
	case strings.HasPrefix(f.folder(), "_") || strings.HasPrefix(f.folder(), "."):
		return fmt.Errorf("folders called %q are hidden from readers: set Name", f.folder())
	}
	return nil
}

func (f PartitionField) folder() string {
	if f.Name != "" {
		return f.Name
	}
	return f.Column
}

// partitioner is a field that found its column.
type partitioner struct {
	column int
	typ    *changelog.Type
	name   string // escaped, with =
	layout string
}

func newPartitioners(fields []PartitionField, s *changelog.Schema) (ps []partitioner, err error) {
	var errs []error
	for _, f := range fields {
		i := s.Index(f.Column)
		if i < 0 {
			errs = append(errs, fmt.Errorf("Options.PartitionBy names column %q, which the table does not have", f.Column))
			continue
		}
		t := &s.Columns[i].Type
		switch k := t.Root.ValueKind(); {
		case f.Layout != "" && k != changelog.KindDate && k != changelog.KindTimestamp && k != changelog.KindTimestampLTZ:
			errs = append(errs, fmt.Errorf("Options.PartitionBy has a Layout for column %q of type %s: it takes DATE, TIMESTAMP and TIMESTAMP_LTZ", f.Column, t))
		case k == changelog.KindArray || k == changelog.KindMap || k == changelog.KindRow:
			errs = append(errs, fmt.Errorf("Options.PartitionBy names column %q of type %s, which has no text", f.Column, t))
		}
		ps = append(ps, partitioner{i, t, string(appendHive(nil, []byte(f.folder()))) + "=", f.Layout})
	}
	return ps, errors.Join(errs...)
}

// appendFolder appends the folders of a row, each with a slash. The error names the column and no value.
func appendFolder(dst []byte, ps []partitioner, c *changelog.Change) ([]byte, error) {
	var text [64]byte
	for _, p := range ps {
		v := c.Row[p.column]
		b := text[:0]
		if !v.IsNull() {
			b = p.append(b, v)
		}
		dst = append(dst, p.name...)
		begin := len(dst)
		if len(b) == 0 {
			dst = append(dst, nullPartition...)
		} else {
			dst = appendHive(dst, b)
		}
		if len(dst)-begin > maxFolder {
			return nil, &changelog.DataError{Partition: c.Partition, Offset: c.Offset, Field: strings.TrimSuffix(p.name, "="), Class: changelog.OutOfRange, Reason: fmt.Sprintf("the value makes a folder's name of more than %d bytes", maxFolder)}
		}
		dst = append(dst, '/')
	}
	return dst, nil
}

func (p partitioner) append(dst []byte, v changelog.Value) []byte {
	if p.layout == "" {
		return changelog.AppendText(dst, p.typ, v)
	}
	var t time.Time
	if v.Kind() == changelog.KindDate {
		t = time.Unix(v.Date()*86400, 0)
	} else {
		sec, nsec := v.Timestamp()
		t = time.Unix(sec, int64(nsec))
	}
	return t.UTC().AppendFormat(dst, p.layout)
}

// appendHive escapes as Hive does (FileUtils.escapePathName), and what is no UTF-8, which S3 takes in no key, and a name that is all dots.
func appendHive(dst, s []byte) []byte {
	const hex = "0123456789ABCDEF"
	dots := len(strings.Trim(string(s), ".")) == 0
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		switch c := s[0]; {
		case r == utf8.RuneError && n == 1, c < 0x20, c == 0x7f, strings.IndexByte(`"#%'*/:=?\{}[]^`, c) >= 0, dots:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
			s = s[1:]
		default:
			dst = append(dst, s[:n]...)
			s = s[n:]
		}
	}
	return dst
}
