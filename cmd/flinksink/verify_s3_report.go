package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// all returns what is compared.
func (l *lake) all() []*lot {
	out := slices.Clone(l.lots)
	for _, format := range slices.Sorted(maps.Keys(l.merged)) {
		out = append(out, l.merged[format])
	}
	return append(out, l.uncovered)
}

// write prints what was found.
func (l *lake) write(w io.Writer, took time.Duration) error {
	var b strings.Builder
	var at []string
	for p, o := range l.limits {
		at = append(at, fmt.Sprintf("%s@%d", p, o))
	}
	slices.Sort(at)
	fmt.Fprintf(&b, "bridge %q: %s against %s, below %s\n", l.f.bridge, source(l.r.in), l.target.into(nil), strings.Join(at, ", "))
	var missing, extra, other, damaged, gone, rows int64
	var lines []string
	unlike := make(map[string]int64)
	for _, x := range l.all() {
		rows += x.have.n
		switch {
		case x.unlike != "":
			unlike[x.unlike]++
		case x.bad != nil:
			damaged++
			lines = append(lines, fmt.Sprintf("damaged: %s: %v", x.name, x.bad))
		case x.gone:
			gone++
		case !l.rows && x != l.uncovered:
			if x.have.n > x.want.n {
				extra += x.have.n - x.want.n
				lines = append(lines, fmt.Sprintf("%s: the topic has %d changes, its files hold %d rows", x.name, x.want.n, x.have.n))
			}
		case x.have == x.want:
		default:
			missing += max(0, x.want.n-x.have.n)
			extra += max(0, x.have.n-x.want.n)
			if x.have.n == x.want.n {
				other++
			}
			lines = append(lines, fmt.Sprintf("%s: the topic has %d rows, its files hold %d%s", x.name, x.want.n, x.have.n, map[bool]string{true: ", and not the same"}[x.have.n == x.want.n]))
		}
	}
	fmt.Fprintf(&b, "checkpoints: %s, files: %s, rows: %s, in %s\n", thousands(int64(len(l.lots))), thousands(l.files), thousands(rows), took.Round(100*time.Millisecond))
	const most = 20
	for _, text := range append(slices.Clone(lines[:min(most, len(lines))]), l.overlaps[:min(most, len(l.overlaps))]...) {
		b.WriteString(text + "\n")
	}
	if n := len(lines) + len(l.overlaps); n > most {
		fmt.Fprintf(&b, "... and more of %d in all\n", n)
	}
	fmt.Fprintf(&b, "missing: %s rows\nextra: %s rows\n", thousands(missing), thousands(extra))
	note := func(n int64, format string) {
		if n > 0 {
			fmt.Fprintf(&b, "not judged: "+format+"\n", thousands(n))
		}
	}
	note(l.pending, "%s offsets that are decided and not yet committed")
	note(gone, "%s checkpoints whose offsets the topic does not have any more (of merged files: all of them)")
	for _, why := range slices.Sorted(maps.Keys(unlike)) {
		note(unlike[why], "the rows of %s checkpoints (of merged files: all of them) whose files are "+strings.ReplaceAll(why, "%", "%%"))
	}
	note(l.unread, "what %s records that cannot be decoded would have added")
	note(l.unwritten, "%s changes that no file takes")
	if !l.rows {
		b.WriteString("not judged: what the rows hold: of kind upsert a file has one row of each key, and which are left out depends on where files ended\n")
	}
	if other > 0 {
		b.WriteString("rows of another --s3-kind, or of a table with other columns, are not the same either: compare with the flags and the table that the files were written with\n")
	}
	wrong := missing + extra + other + damaged + int64(len(l.overlaps))
	if wrong == 0 {
		b.WriteString("no difference\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("verify: %d rows are missing, %d are extra, %d checkpoints hold others, %d are damaged, %d stretches of offsets are there twice", missing, extra, other, damaged, len(l.overlaps))
	}
	return nil
}
