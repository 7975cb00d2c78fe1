package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/sink"
)

// Commands that the library's errors name become such as do it when they are pasted into a shell; other words stay as they are.
func TestWhole(t *testing.T) {
	plain := storeFlags{url: "postgres://app:hunter2@db/shop"}
	schema := storeFlags{url: "postgres://app@db/shop?sslmode=disable", schema: "$1 a"}
	bucket := storeFlags{url: "s3://lake/raw", more: []string{"--s3-endpoint", "http://s3:9000"}}
	for _, c := range []struct {
		f          storeFlags
		text, want string
	}{
		{plain, "accept it by 'flinksink positions set t:0:5', or not", "accept it by flinksink positions set --store postgres://app@db/shop --bridge b --yes t:0:5, or not"},
		{plain, "by 'flinksink positions reset' or 'flinksink positions reset t:0 t:1'", "by flinksink positions reset --store postgres://app@db/shop --bridge b --yes or " +
			"flinksink positions reset --store postgres://app@db/shop --bridge b --yes t:0 t:1"},
		{plain, "by 'flinksink positions skip t:0:5'", "by flinksink positions skip --store postgres://app@db/shop --bridge b t:0:5"},
		{schema, "'flinksink positions reset'", "flinksink positions reset --store 'postgres://app@db/shop?sslmode=disable' --store-schema '$1 a' --bridge b --yes"},
		{bucket, "'flinksink positions set t:0:5'", "flinksink positions set --store s3://lake/raw --s3-endpoint http://s3:9000 --bridge b --yes t:0:5"},
		{plain, "'flinksink positions show' and 'flinksink run'", "'flinksink positions show' and 'flinksink run'"},
	} {
		lost := &sink.Error{Class: sink.ErrLost, Err: errors.New(c.text)}
		got := whole(fmt.Errorf("at a place: %w", lost), "b", c.f)
		prefix := fmt.Errorf("at a place: %w", &sink.Error{Class: sink.ErrLost, Err: errors.New("")}).Error()
		if want := prefix + c.want; got.Error() != want || !errors.Is(got, sink.ErrLost) {
			t.Errorf("%q became\n%q, want\n%q", c.text, got, want)
		}
	}
	other := errors.New("'flinksink positions set t:0:5'")
	if got := whole(other, "b", plain); got != other {
		t.Errorf("%q", got)
	}
}
