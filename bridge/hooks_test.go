package bridge

import (
	"reflect"
	"testing"

	"github.com/flinksink/flinksink/sink"
)

// Every hook there is reaches both, in order; also one that is added later.
func TestBoth(t *testing.T) {
	var called []string
	all := func(name string) sink.Hooks {
		var h sink.Hooks
		v := reflect.ValueOf(&h).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
				called = append(called, name+" "+field)
				return nil
			}))
		}
		return h
	}
	for _, c := range []struct {
		a, b sink.Hooks
		want []string
	}{{all("a"), all("b"), []string{"a", "b"}}, {all("a"), sink.Hooks{}, []string{"a"}}, {sink.Hooks{}, all("b"), []string{"b"}}, {sink.Hooks{}, sink.Hooks{}, nil}} {
		v := reflect.ValueOf(both(c.a, c.b))
		for i := range v.NumField() {
			field := v.Type().Field(i).Name
			if v.Field(i).IsNil() {
				t.Fatalf("%s is not passed on", field)
			}
			called = nil
			args := make([]reflect.Value, v.Field(i).Type().NumIn())
			for j := range args {
				args[j] = reflect.Zero(v.Field(i).Type().In(j))
			}
			v.Field(i).Call(args)
			var want []string
			for _, name := range c.want {
				want = append(want, name+" "+field)
			}
			if !reflect.DeepEqual(called, want) {
				t.Errorf("%s: called %q, want %q", field, called, want)
			}
		}
	}
}
