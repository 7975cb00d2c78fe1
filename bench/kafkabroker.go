package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/flinksink/flinksink/testbed/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// brokerOnly finds a broker for a section without a database: that of the other sections, or one of its own, which stop ends.
func (b *bench) brokerOnly(ctx context.Context) (s *servers, stop func(), err error) {
	if b.started != nil {
		return b.started, func() {}, nil
	}
	s = &servers{prefix: fmt.Sprintf("flinksink_bench_%d_%d", os.Getpid(), time.Now().UnixNano())}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.broker = os.Getenv(kafka.Env); s.broker != "" {
		s.about = append(s.about, "broker: that of "+kafka.Env)
	} else {
		cmd, err := self(roleBroker)
		if err != nil {
			return nil, nil, err
		}
		broker, err := kafka.Start(ctx, cmd)
		if err != nil {
			return nil, nil, err
		}
		s.undo = append(s.undo, broker.Stop)
		s.broker = broker.Addr()
		s.about = append(s.about, "broker: kfake in a process of its own, whose transactions cost what no real broker's do ("+kafka.Env+" names a real one)")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.broker, ",")...))
	if err != nil {
		return nil, nil, err
	}
	s.undo = append(s.undo, cl.Close)
	s.adm = kadm.NewClient(cl)
	s.undo = append(s.undo, func() { // what the store of sink/kafka made
		_, _ = s.adm.DeleteTopics(context.WithoutCancel(ctx), s.prefix+"_checkpoints")
	}, s.deleteTopics)
	return s, s.stop, nil
}
