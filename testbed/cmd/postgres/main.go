// Command postgres gives a real Postgres server (see testbed/postgres), prints its connection string, and keeps it until its standard
// input ends or it is interrupted.
//
//	postgres [-own] [-tls] [-version 15]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/flinksink/flinksink/testbed/postgres"
)

func main() {
	own := flag.Bool("own", false, "start a server even where "+postgres.Env+" names one")
	tls := flag.Bool("tls", false, "take TLS connections too, with a certificate of its own")
	version := flag.String("version", "", "the major `version`, 13 to 18; else what is installed")
	flag.Parse()
	if err := run(postgres.Options{Own: *own, TLS: *tls, Version: *version}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o postgres.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "postgres: "+format+"\n", args...) }
	s, err := postgres.Start(ctx, o)
	if err != nil {
		return err
	}
	o.Log("%s", s.Origin())
	fmt.Println(s.DSN())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ctx.Done():
	case <-over:
	}
	return s.Stop()
}
