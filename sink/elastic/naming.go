package elastic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flinksink/flinksink/changelog"
)

// naming makes the name of an index from a row: texts and columns in turn.
type naming struct {
	parts []namePart
	// moves tells that an update can give a row another name: not all columns of the name are of the key. Then the document under the old name
	// has to go, which the change must tell.
	moves bool
}

type namePart struct {
	text   string // as it is, or
	column int    // in the table
	typ    *changelog.Type
	layout string // for time.Format; "": the column's text
}

// namePiece is a part of the template that New was given.
type namePiece struct {
	text, column, layout string
	braces               bool
}

// namePieces reads a template: texts, {column} and {column|yyyy-MM-dd}.
func namePieces(template string) ([]namePiece, error) {
	var out []namePiece
	for rest := template; rest != ""; {
		text, after, ok := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, errors.New("has a } without a {")
		}
		if text != "" {
			out = append(out, namePiece{text: text})
		}
		if !ok {
			break
		}
		inner, tail, ok := strings.Cut(after, "}")
		if !ok || strings.Contains(inner, "{") {
			return nil, errors.New("has a { without a }")
		}
		column, pattern, formatted := strings.Cut(inner, "|")
		if column == "" {
			return nil, errors.New("has braces without a column in them")
		}
		piece := namePiece{column: column, braces: true}
		if formatted {
			var err error
			if piece.layout, err = dateLayout(pattern); err != nil {
				return nil, err
			}
		}
		out, rest = append(out, piece), tail
	}
	return out, nil
}

// dateLayout translates the letters that Flink's own connector takes into those of package time.
func dateLayout(pattern string) (string, error) {
	layout := ""
	for rest := pattern; rest != ""; {
		n := 1
		for n < len(rest) && rest[n] == rest[0] {
			n++
		}
		switch run := rest[:n]; run {
		case "yyyy":
			layout += "2006"
		case "MM":
			layout += "01"
		case "dd":
			layout += "02"
		case "HH":
			layout += "15"
		default:
			if strings.Trim(run, "-._") != "" {
				return "", fmt.Errorf("has the time format %q: it is made of yyyy, MM, dd, HH and the signs - . _", pattern)
			}
			layout += run
		}
		rest = rest[n:]
	}
	if strings.Trim(layout, "-._") == "" {
		return "", errors.New("has an empty time format: it is made of yyyy, MM, dd, HH and the signs - . _")
	}
	return layout, nil
}

// badTemplate says what is wrong with the name that New was given, whose columns are not known yet, or "".
func badTemplate(template string) string {
	pieces, err := namePieces(template)
	if err != nil {
		return err.Error()
	}
	name := ""
	for _, p := range pieces {
		if p.braces {
			name += "0"
		} else {
			name += p.text
		}
	}
	if pieces[0].braces {
		return "begins with a column: let it begin with a text, so that its indexes are told from all others"
	}
	return badIndex(name)
}

// named finds the columns of a template; nil: it has none.
func (p *plan) named(template string) (*naming, error) {
	if !strings.Contains(template, "{") {
		return nil, nil
	}
	pieces, err := namePieces(template)
	if err != nil {
		return nil, fmt.Errorf("index %q %w", template, err)
	}
	t := p.table
	n := new(naming)
	var errs []error
	for _, piece := range pieces {
		if !piece.braces {
			n.parts = append(n.parts, namePart{text: piece.text})
			continue
		}
		i := t.Schema.Index(piece.column)
		if i < 0 {
			errs = append(errs, fmt.Errorf("index %q names column %q, which table %q does not have", template, piece.column, t.Name))
			continue
		}
		typ := &t.Schema.Columns[i].Type
		switch typ.Root {
		case changelog.RootDate, changelog.RootTimestamp, changelog.RootTimestampLTZ:
			if piece.layout == "" {
				piece.layout = "2006-01-02"
			}
		case changelog.RootChar, changelog.RootVarchar, changelog.RootBoolean, changelog.RootTinyInt, changelog.RootSmallInt, changelog.RootInt, changelog.RootBigInt:
			if piece.layout != "" {
				errs = append(errs, fmt.Errorf("index %q has a time format for column %q of type %s", template, piece.column, typ))
			}
		default:
			errs = append(errs, fmt.Errorf("index %q names column %q of type %s: a name is made of texts, whole numbers, BOOLEAN, DATE and TIMESTAMP", template, piece.column, typ))
		}
		if !p.keyless && !slices.Contains(t.Schema.Key, i) {
			n.moves = true
			if !t.Mode.Contains(changelog.UpdateBefore) {
				errs = append(errs, fmt.Errorf("index %q names column %q, which is not of the key of table %q, and the topic (mode %s) does not tell what a row held before an update or delete: the document "+
					"in the index of before could not be found. Name columns of the key, or choose a format that has the row before", template, piece.column, t.Name, t.Mode))
			}
		}
		n.parts = append(n.parts, namePart{column: i, typ: typ, layout: piece.layout})
	}
	return n, errors.Join(errs...)
}

// pattern is what finds all indexes of a template.
func pattern(template string) string {
	pieces, err := namePieces(template)
	if err != nil {
		return template
	}
	out := ""
	for _, p := range pieces {
		if p.braces {
			out += "*"
		} else {
			out += p.text
		}
	}
	return out
}

var (
	errNoName  = errors.New("a column that the index's name is made of is NULL or was not sent")
	errBadName = errors.New(`a column that the index's name is made of holds a sign that no name may have (\ / * ? " < > | , # : or a space), is empty, or is too long`)
)

// appendName appends the name of the row's index. Upper case letters become lower ones: names of indexes have none.
func (n *naming) appendName(dst []byte, row changelog.Row) ([]byte, error) {
	start := len(dst)
	for i := range n.parts {
		p := &n.parts[i]
		if p.typ == nil {
			dst = append(dst, p.text...)
			continue
		}
		if p.column >= len(row) {
			return dst, errWide
		}
		v := row[p.column]
		switch kind := v.Kind(); {
		case kind == changelog.KindNull || kind == changelog.KindUnchanged:
			return dst, errNoName
		case p.layout != "":
			dst = timeOf(v).AppendFormat(dst, p.layout)
		case kind == changelog.KindString:
			b := v.Bytes()
			if len(b) == 0 || !utf8.Valid(b) {
				return dst, errBadName
			}
			for _, r := range string(b) {
				if r <= ' ' || r == 0x7f || strings.ContainsRune("\\/*?\"<>|,#:", r) {
					return dst, errBadName
				}
				dst = utf8.AppendRune(dst, unicode.ToLower(r))
			}
		default:
			dst = changelog.AppendText(dst, p.typ, v)
		}
	}
	if len(dst)-start > 255 || badIndex(string(dst[start:])) != "" {
		return dst, errBadName
	}
	return dst, nil
}

// timeOf reads a DATE or TIMESTAMP, in UTC.
func timeOf(v changelog.Value) time.Time {
	if v.Kind() == changelog.KindDate {
		return time.Unix(v.Date()*24*60*60, 0).UTC()
	}
	seconds, nanos := v.Timestamp()
	return time.Unix(seconds, int64(nanos)).UTC()
}
