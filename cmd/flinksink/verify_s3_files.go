package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	s3sink "github.com/flinksink/flinksink/sink/s3"
)

// readFiles adds the rows that there are.
func (l *lake) readFiles(ctx context.Context, rd *s3sink.Reader) error {
	for m, err := range rd.Manifests(ctx) {
		if err != nil {
			return err
		}
		if m.Compaction == 0 {
			if l.later(m) {
				continue // it was committed after the positions were read
			}
			x := &lot{name: fmt.Sprintf("checkpoint %d.%d", m.Generation, m.Checkpoint), from: m.From, to: m.To}
			l.lots = append(l.lots, x)
			l.seen[[2]int64{int64(m.Generation), int64(m.Checkpoint)}] = true
			l.coverAll(m, x)
			for _, f := range m.Files {
				l.files++
				if err := l.readFile(ctx, rd, f, x); err != nil {
					return err
				}
			}
			continue
		}
		for _, f := range m.Files {
			l.files++
			if f.Table != l.dec.Table().Name {
				continue
			}
			if err := l.readFile(ctx, rd, f, l.mergedOf(f.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lake) coverAll(m *s3sink.Manifest, x *lot) {
	for i := range m.From {
		l.cover(changelog.Partition{Topic: m.From[i].Topic, Partition: m.From[i].Partition}, stretch{m.From[i].Offset, m.To[i].Offset, x})
	}
}

// mergedOf returns the lot of merged files of a name's format.
func (l *lake) mergedOf(key string) *lot {
	format := formatOf(key)
	x := l.merged[format]
	if x == nil {
		x = &lot{name: "merged files"}
		l.merged[format] = x
		if l.first == nil {
			l.first = x
		}
	}
	return x
}

// tellMerged finds out which offsets are in merged files of which format, where there are several. Manifests stay when their files are merged.
func (l *lake) tellMerged(ctx context.Context) error {
	if len(l.merged) < 2 {
		return nil
	}
	for format, x := range l.merged {
		x.name = fmt.Sprintf("merged files (%s)", cmp.Or(format, "of another format"))
	}
	rd, err := s3sink.NewReader(l.target.client, l.target.folder.bucket, l.target.folder.prefix, &s3sink.ReaderOptions{Bridge: l.f.bridge, Sink: l.f.sink, Original: true})
	if err != nil {
		return err
	}
	for m, err := range rd.Manifests(ctx) {
		if err != nil {
			return err
		}
		if l.seen[[2]int64{int64(m.Generation), int64(m.Checkpoint)}] || l.later(m) {
			continue
		}
		for _, f := range m.Files {
			if f.Table == l.dec.Table().Name {
				l.coverAll(m, l.mergedOf(f.Key))
				break
			}
		}
	}
	return nil
}

// later reports a checkpoint beyond the positions.
func (l *lake) later(m *s3sink.Manifest) bool {
	return slices.ContainsFunc(m.To, func(o s3sink.Offset) bool {
		return o.Offset > l.limits[changelog.Partition{Topic: o.Topic, Partition: o.Partition}]
	})
}

// readFile adds the rows of a file. One that is not what its manifest says is a finding, an outage is none.
func (l *lake) readFile(ctx context.Context, rd *s3sink.Reader, f s3sink.ManifestFile, x *lot) error {
	if f.Table != l.dec.Table().Name {
		return nil
	}
	format := formatOf(f.Key)
	switch {
	case format == "":
		x.unlike = fmt.Sprintf("named *%s, of a format that this command does not have", endOf(f.Key))
	case x.format != "" && x.format != format:
		x.unlike = fmt.Sprintf("of formats %s and %s in one checkpoint", x.format, format)
	case l.forms.misfit(format) != nil:
		x.unlike = fmt.Sprintf("of format %s, which cannot be written of the table: %v", format, l.forms.misfit(format))
	}
	if x.format = format; x.unlike != "" {
		return nil
	}
	body, err := rd.Open(ctx, f)
	if err == nil {
		before := x.have.n
		err = eachRow(format, body, func(row []byte) error {
			x.have.add(row)
			return nil
		})
		body.Close()
		if err == nil && x.have.n-before != f.Rows {
			err = fmt.Errorf("%d rows can be read, and its manifest says %d", x.have.n-before, f.Rows)
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case sink.ClassOf(err) == sink.ErrTransient, sink.ClassOf(err) == sink.ErrConfig:
		return err
	default:
		x.bad = cmp.Or(x.bad, fmt.Errorf("file %s: %w", path.Base(f.Key), err))
	}
	return nil
}
