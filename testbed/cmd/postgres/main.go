// Command postgres gives a real Postgres server (see testbed/postgres), prints its connection string, and keeps it until its standard
// input ends or it is interrupted.
//
//	postgres [-own]
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
	flag.Parse()
	if err := run(*own); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(own bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, "postgres: "+format+"\n", args...) }
	s, err := postgres.Start(ctx, postgres.Options{Own: own, Log: log})
	if err != nil {
		return err
	}
	log("%s", s.Origin())
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
