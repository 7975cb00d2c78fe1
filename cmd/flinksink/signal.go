package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("stopped by a signal")

// interruptible returns a context that ends with the first SIGINT or SIGTERM. The second ends the process at once: then the server
// rolls the open transaction back, and the next start goes on from the last checkpoint.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			select {
			case <-signals:
				if n == 2 {
					os.Exit(exitFailed)
				}
				cancel(errInterrupted)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// interrupted reports whether ctx was ended by a signal.
func interrupted(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), errInterrupted)
}
