package postgres_test

import (
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// Tables that somebody changed by hand: whoever reads them is told what is odd, at once and for good, and nothing is taken for what it is not.
func TestStore_OddRows(t *testing.T) {
	const committable = "INSERT INTO %s.committable VALUES ('bridge', 1, 1, 'other', 1, '\\x00', '[]', '[]');"
	for name, tc := range map[string]struct{ sql, want string }{
		"negative offset":           {"UPDATE %s.position SET next_offset = -5", "topic/0@-5"},
		"negative epoch":            {"UPDATE %s.position SET leader_epoch = -7", "leader epoch -7"},
		"no topic id":               {"UPDATE %s.position SET topic_id = 'x'", "topic id"},
		"incarnation too high":      {"UPDATE %s.bridge SET incarnation = 70000", "incarnation 70000"},
		"incarnation too low":       {"UPDATE %s.bridge SET incarnation = -1", "incarnation -1"},
		"fewer partitions":          {"UPDATE %s.generation SET partitions = '{}'", "1 topics and 0 partitions"},
		"NULL within topics":        {"UPDATE %s.generation SET topics = '{NULL}'", "topics"},
		"NULL owner":                {"ALTER TABLE %s.generation ALTER owner DROP NOT NULL; UPDATE %s.generation SET owner = NULL", "owner"},
		"text for a number":         {"ALTER TABLE %s.position ALTER leader_epoch DROP DEFAULT, ALTER leader_epoch TYPE text", "leader_epoch"},
		"positions that are none":   {committable + "UPDATE %s.committable SET from_positions = '{}'", "no such JSON"},
		"negative position":         {committable + `UPDATE %s.committable SET to_positions = '[{"topic":"t","offset":-1}]'`, "t/0@-1"},
		"NULL version":              {committable + "ALTER TABLE %s.committable ALTER version DROP NOT NULL; UPDATE %s.committable SET version = NULL", "version"},
		"NULL sink":                 {committable + "ALTER TABLE %s.committable DROP CONSTRAINT committable_pkey, ALTER sink DROP NOT NULL; UPDATE %s.committable SET sink = NULL", "sink"},
		"negative checkpoint":       {committable + "UPDATE %s.committable SET checkpoint = -1", "1.-1"},
		"format of nothing":         {"DELETE FROM %s.format", "Options.Schema"},
		"format of another program": {"UPDATE %s.format SET version = -3", "format version -3"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			tb := e.keyed()
			w := e.writer(e.pool(nil), e.options(), tb)
			if err := w.writeTo(5); err != nil {
				t.Fatal(err)
			}
			w.finish()
			other := e.writer(e.pool(nil), e.options(), tb) // ends generation 1, which is not settled
			e.exec(strings.ReplaceAll(tc.sql, "%s", e.own))
			_, err := e.operator().Read(t.Context(), "bridge")
			wantConfig(t, err, tc.want)
			acquire := func() error {
				_, err := other.store().Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", GroupGeneration: -1, Partitions: []changelog.Partition{part0}})
				return err
			}
			if strings.HasPrefix(name, "format") {
				_, err = e.lane(e.pool(nil), "", e.options(), tb)
			} else if err = acquire(); strings.Contains(err.Error(), "0A000") { // a plan of before; it is made anew
				err = acquire()
			}
			wantConfig(t, err, tc.want)
		})
	}
}

// A position that cannot be so can be set anew.
func TestSetPositions_MendsAnOddOne(t *testing.T) {
	e := newEnv(t)
	w := e.writer(e.pool(nil), e.options(), e.keyed())
	if err := w.writeTo(5); err != nil {
		t.Fatal(err)
	}
	w.finish()
	e.exec("UPDATE " + e.own + ".position SET next_offset = -5, topic_id = 'x'")
	wantConfig(t, w.tryAcquire(), "topic/0@-5", "set the position anew")
	if _, err := e.operator().SetPositions(t.Context(), "bridge", at(-1, 5), "mended"); err != nil {
		t.Fatal(err)
	}
	w.acquire()
	if w.from != 5 {
		t.Errorf("acquired at %d", w.from)
	}
	if a, err := e.operator().Audit(t.Context(), "bridge", 1); err != nil || len(a) != 1 || a[0].Before.Offset != -5 {
		t.Errorf("%+v, %v", a, err)
	}
}
