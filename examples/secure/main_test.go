package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog/ddl"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = "from-the-table: order 1 of ann\nfrom-the-table: order 3 of eve\nfrom-options: order 1 of ann\nfrom-options: order 3 of eve\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// Either way the broker lets in nobody with another password, nobody that does not trust it gets as far as telling one, and the error
// holds neither password.
func TestRun_Refused(t *testing.T) {
	b, err := newBroker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	_, stranger, err := issue()
	if err != nil {
		t.Fatal(err)
	}
	guess, distrust := *b, *b
	guess.password = "guessed-guessed"
	distrust.authority = stranger
	for name, as := range map[string]*broker{"another password": &guess, "another authority": &distrust} {
		for way, make := range map[string]func(*broker) (*ddl.Table, *bridge.Options, error){"table": fromTable, "options": fromOptions} {
			table, o, err := make(as)
			if err != nil {
				t.Fatal(err)
			}
			if o == nil {
				o = &bridge.Options{}
			}
			o.Connect = 500 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err = read(ctx, io.Discard, "refused", as, table, o)
			cancel()
			if err == nil {
				t.Errorf("%s by %s: let in", name, way)
			} else if text := err.Error(); strings.Contains(text, b.password) || strings.Contains(text, guess.password) || !strings.Contains(text, "TLS and SASL") {
				t.Errorf("%s by %s: %v", name, way, err)
			}
		}
	}
}
