package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/explain"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/kafka"
)

// judgeTopic says what run would do with the topic that is written: whether it is refused, and whether values are handed on as they came. No broker is asked.
func (c *call) judgeTopic(ctx context.Context, r *explain.Report, t *ddl.Table, f *explainFlags, to place) error {
	target := &topicTarget{place: to, f: &targetFlags{kafka: f.kafka}}
	if to.url != "" {
		var err error
		if target.broker, err = to.broker("--to"); err != nil {
			return err
		}
	}
	into, err := target.table(c, &reading{table: t, source: f.table.text, from: f.table.where(), named: f.table.name})
	if err != nil {
		return err
	}
	if into.Options["topic"] == "" {
		into.Options["topic"] = "copy"
	}
	formats, err := f.table.formats()
	if err != nil {
		return err
	}
	d, err := decoder(t, &f.table)
	if err != nil {
		return nil // the report says it
	}
	cl, err := kgo.NewClient() // it connects to nothing before it is asked to
	if err != nil {
		return err
	}
	defer cl.Close()
	s, err := kafka.InTransaction(cl, into, formats, nil)
	if err == nil {
		_, err = s.Lane(ctx, sink.Lane{Bridge: "explain", Sink: bridge.DefaultSinkName, Tables: []*changelog.Table{d.Table()}})
	}
	own := f.kafka.ddl != "" || f.kafka.table != ""
	if own { // what the report says is about a topic like the one that is read
		r.Findings = slices.DeleteFunc(r.Findings, func(f explain.Finding) bool { return f.What == "sink" && f.Level == explain.OK })
	}
	add := func(level explain.Level, text string) {
		r.Findings = append(r.Findings, explain.Finding{Level: level, What: "sink", Text: text})
	}
	if err != nil {
		for e, ok := err.(*sink.Error); ok && e.Err != nil; e, ok = err.(*sink.Error) {
			err = e.Err // what was being done is said already
		}
		add(explain.Wrong, fmt.Sprintf("Kafka does not take it by table %s: %v", into.Name(), err))
		return nil
	}
	if own {
		add(explain.OK, fmt.Sprintf("Kafka takes it by table %s, connector '%s' with format '%s'", into.Name(), into.Options["connector"], cmp.Or(into.Options["value.format"], into.Options["format"])))
	}
	switch handed, text := handedOn(s, d.Table()); {
	case handed && !own:
		add(explain.OK, text+", as run writes unless --kafka-ddl says otherwise")
	case handed:
		add(explain.OK, text)
	default:
		add(explain.Note, text)
	}
	return nil
}
