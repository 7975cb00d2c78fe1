package elastic

import (
	"context"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/sink"
)

// Check looks at what the Open of a lane looks at, index, mapping and pipeline, and changes nothing: an index that is missing is not made. It returns
// what it found, a line each, for people; an error is what Open would say. So it may be called beside a running bridge.
func (s *Sink) Check(ctx context.Context, l sink.Lane) (found []string, err error) {
	cm, err := s.Lane(ctx, l)
	if err != nil {
		return nil, err
	}
	defer cm.Close(context.WithoutCancel(ctx))
	c := cm.(*committer)
	if s.o.Pipeline != "" {
		if err := s.lookPipeline(ctx); err != nil {
			return nil, c.classed("check", err)
		}
	}
	for _, p := range c.plans {
		text, err := s.lookAt(ctx, p)
		if err != nil {
			return found, c.classed("check", err)
		}
		found = append(found, text)
	}
	return found, nil
}

func (s *Sink) lookAt(ctx context.Context, p *plan) (string, error) {
	all, err := s.look(ctx, p.index)
	if err != nil {
		return "", err
	}
	switch {
	case len(all) == 0 && p.naming != nil:
		return "no index like " + p.index + " is there yet: each is looked at, or made, when its first row comes", nil
	case len(all) == 0 && s.o.DataStream:
		return "", configf("there is no data stream %s: make an index template for it, then PUT _data_stream/%[1]s", p.index)
	case len(all) == 0 && s.o.CreateIndex:
		return "index " + p.index + " is missing, and is made at the start", nil
	case len(all) == 0:
		return "", s.create(ctx, p, p.index) // refuses, with what would make it
	}
	if p.naming == nil {
		if err := s.single(p.index, all); err != nil {
			return "", err
		}
	}
	if err := notClosed(all); err != nil {
		return "", err
	}
	if err := s.fit(p, all); err != nil {
		return "", err
	}
	return fmt.Sprintf("index %s takes table %s", strings.Join(sorted(all), ", "), p.table.Name), nil
}
