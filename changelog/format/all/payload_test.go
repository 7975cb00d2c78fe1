package all

import (
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// A payload that was made by hand and is not whole is an error of every format, and no panic.
func TestPayloadIsChecked(t *testing.T) {
	s := &changelog.Schema{Columns: []changelog.Column{{Name: "v", Type: changelog.Type{Root: changelog.RootInt}}}}
	tab := &changelog.Table{Name: "t", Schema: s}
	for _, f := range Formats() {
		for name, p := range map[string]changelog.Payload{
			"nothing":               {},
			"no schema":             {Table: &changelog.Table{Name: "t"}},
			"a column too far":      {Table: tab, Columns: []int{1}, Names: []string{"v"}},
			"a column before":       {Table: tab, Columns: []int{-1}, Names: []string{"v"}},
			"a column with no name": {Table: tab, Columns: []int{0}},
		} {
			if d, err := f.NewDecoder(p); err == nil || d != nil {
				t.Errorf("%s, %s: decoder %v, error %v", f.Name(), name, d, err)
			}
			if e, err := f.NewEncoder(p); err == nil || e != nil {
				t.Errorf("%s, %s: encoder %v, error %v", f.Name(), name, e, err)
			}
		}
	}
}
