// Command kfake runs an in-process broker as a process of its own and prints its address. It ends when its standard input ends, or
// when it is interrupted. All it holds is in memory.
//
//	kfake [-port N] [TOPIC:PARTITIONS ...]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/flinksink/flinksink/testbed/kafka"
)

func main() {
	port := flag.Int("port", 0, "port to listen on; 0: a free one")
	flag.Parse()
	o := kafka.Options{Port: *port, Topics: map[string]int32{}}
	for _, a := range flag.Args() {
		name, count, ok := strings.Cut(a, ":")
		n, err := strconv.ParseInt(count, 10, 32)
		if !ok || err != nil || n < 1 || name == "" {
			fmt.Fprintf(os.Stderr, "kfake: %q: expected TOPIC:PARTITIONS\n", a)
			os.Exit(2)
		}
		o.Topics[name] = int32(n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := kafka.Serve(ctx, o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
