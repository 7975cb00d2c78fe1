package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// compared is a topic, a bridge and its table.
type compared struct {
	t  *testing.T
	db *database
	k  *cluster
	in Input
	to *postgres.Sink
}

const (
	typesDDL = "k BIGINT, k2 STRING, b BOOLEAN, i INT, d DOUBLE, n DECIMAL(20, 4), s STRING, ts TIMESTAMP(9), tz TIMESTAMP_LTZ(3), da DATE, ti TIME(3), j STRING, u STRING, a ARRAY<INT>, x STRING"
	typesSQL = "k bigint, k2 text, b boolean, i integer, d double precision, n numeric, s varchar(100), ts timestamp, tz timestamptz, da date, ti time, j jsonb, u uuid, a integer[], own text DEFAULT 'own', PRIMARY KEY (k, k2)"
)

func newCompared(t *testing.T, name, table string, o postgres.Options) *compared {
	t.Helper()
	c := &compared{t: t, db: newDatabase(t, "verify_"+name), k: newCluster(t, 3)}
	c.db.exec("CREATE TABLE kv (" + table + ")")
	tab, err := ddl.Find(`CREATE TABLE kv (`+typesDDL+`, PRIMARY KEY (k, k2) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'texts',
		'properties.bootstrap.servers' = '`+c.k.addr+`', 'key.format' = 'json', 'value.format' = 'json')`, "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := format.New(tab, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.in, err = FromTable(tab, d); err != nil {
		t.Fatal(err)
	}
	o.Schema, o.TruncateNanos = c.db.schema+"_own", true
	if o.Columns == nil {
		o.Columns = map[string]string{"x": ""}
	}
	if c.to, err = postgres.New(c.db.pool, "", &o); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *compared) record(k int, value string) *kgo.Record {
	r := c.k.record(int32(k%3), value)
	r.Key = fmt.Appendf(nil, `{"k":%d,"k2":"ü,%d"}`, k, k)
	if value == "" {
		r.Value = nil
	}
	return r
}

// row is a message that puts a row there, with a version that changes every column.
func row(k, version int) string {
	return fmt.Sprintf(`{"k":%d,"k2":"ü,%d","b":%t,"i":%d,"d":%s,"n":%d.5000,"s":"s%d","ts":"2024-02-29 12:34:56.12345678%d","tz":"2024-02-29 12:34:56.%03dZ","da":"2024-01-%02d",`+
		`"ti":"01:02:%02d","j":"{\"b\":1,\"a\":%d.0}","u":"6f9619ff-8b86-d011-b42d-00c04fc96%03d","a":[%d,null],"x":"left out %d"}`,
		k, k, version%2 == 0, version, []string{"1.5", `"NaN"`, "-0.0", "1e300"}[version%4], version, version, version%10, version%1000, version%28+1, version%60, version, version%1000, version, version)
}

func (c *compared) put(rs ...*kgo.Record) {
	c.t.Helper()
	if err := c.k.cl.ProduceSync(c.t.Context(), rs...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// story puts n keys there, updates half of them and deletes a tenth.
func (c *compared) story(n int) {
	var rs []*kgo.Record
	for k := range n {
		rs = append(rs, c.record(k, row(k, 1)))
	}
	for k := range n {
		switch {
		case k%10 == 0:
			rs = append(rs, c.record(k, ""))
		case k%2 == 0:
			rs = append(rs, c.record(k, row(k, k)))
		}
	}
	c.put(rs...)
}

func (c *compared) options() *Options {
	o := options(newTarget())
	o.Store = nil
	return o
}

// catchUp runs the bridge to the end of the topic.
func (c *compared) catchUp(o *Options) {
	c.t.Helper()
	o.UntilEnd = true
	b, err := New("test", c.in, c.to, o)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := start(c.t, b).wait(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *compared) verify(v *VerifyOptions) VerifyReport {
	c.t.Helper()
	r, err := Verify(c.t.Context(), "test", c.in, c.to, c.options(), v)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *compared) repair(v *VerifyOptions) VerifyReport {
	c.t.Helper()
	r, err := Repair(c.t.Context(), "test", c.in, c.to, c.options(), v)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *compared) rows() []string { return c.db.all("SELECT kv::text FROM kv ORDER BY k, k2") }

// counts is what a report found, in few words.
func counts(r VerifyReport) string {
	return fmt.Sprintf("keys %d missing %d stale %d extra %d", r.Keys, r.Missing, r.Stale, r.Extra)
}

// Every kind of difference, in each column of every type, is found in each mode, and mended, and nothing else is.
func TestVerify_PlantedDifferences(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Prepared, postgres.Staged} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCompared(t, strings.ReplaceAll(mode.String(), "-", "_"), typesSQL, postgres.Options{Mode: mode})
			c.story(300)
			c.catchUp(c.options())
			before := c.rows()
			if len(before) != 270 {
				t.Fatalf("%d rows", len(before))
			}
			if r := c.verify(nil); !r.Clean() || !r.Exact || r.Keys != 270 || r.NoExtra != "" || r.Passes != 1 {
				t.Fatalf("of an intact table: %+v", r)
			}
			for i, edit := range []string{"b = NOT b", "i = i + 1", "d = 0", "n = n + 0.0001", "s = s || ' '", "ts = ts + interval '1 microsecond'", "tz = tz + interval '1 microsecond'", "da = da + 1",
				"ti = ti + interval '1 microsecond'", `j = '{"a": 1}'`, "u = 'ffffffff-8b86-d011-b42d-00c04fc96000'", "a = a || 1", "b = NULL", "s = ''", "a = ARRAY[1]", "n = n::numeric(20,6)"} {
				c.db.exec(fmt.Sprintf("UPDATE kv SET %s WHERE k = %d", edit, 11+10*i))
			}
			c.db.exec("UPDATE kv SET own = 'by hand' WHERE k = 1")
			c.db.exec("DELETE FROM kv WHERE k IN (2, 3, 4)")
			c.db.exec("INSERT INTO kv (k, k2) VALUES (10, 'ü,10'), (1000, 'never there'), (5, 'of another second column')")
			planted := c.rows()
			var kinds []string
			r := c.verify(&VerifyOptions{Keys: true, Found: func(d sink.Difference) { kinds = append(kinds, d.Kind.String()+" "+d.Key) }})
			if got, want := counts(r), "keys 270 missing 3 stale 16 extra 3"; got != want {
				t.Errorf("found %s, expected %s", got, want)
			}
			slices.Sort(kinds)
			for _, want := range []string{`extra (5,"of another second column")`, `extra (10,"ü,10")`, "missing (2,ü,2)", "stale (161,ü,161)"} {
				if !slices.Contains(kinds, want) {
					t.Errorf("%q is not among %q", want, kinds)
				}
			}
			if len(r.First[sink.Stale]) != 16 || len(r.First[sink.Missing]) != 3 {
				t.Errorf("positions %v", r.First)
			}
			if !slices.Equal(c.rows(), planted) {
				t.Error("Verify changed the table")
			}
			r = c.repair(&VerifyOptions{Why: "test"})
			if want := (sink.Mended{Written: 19, Deleted: 3}); r.Mended != want {
				t.Errorf("mended %+v, expected %+v", r.Mended, want)
			}
			if r := c.verify(nil); !r.Clean() {
				t.Errorf("after the repair: %s", counts(r))
			}
			c.db.exec("UPDATE kv SET own = 'own'")
			if got := c.rows(); !slices.Equal(got, before) {
				t.Errorf("after the repair the table has\n%q\nand before\n%q", got, before)
			}
			audit := c.db.all("SELECT what || ': ' || reason FROM " + c.db.schema + "_own.audit ORDER BY at")
			if len(audit) != 2 || !strings.HasPrefix(audit[0], "repair: test (") {
				t.Errorf("the audit says %q", audit)
			}
			// And the bridge goes on.
			c.put(c.record(2, row(2, 7)), c.record(20, row(20, 7)))
			c.catchUp(c.options())
			if r := c.verify(nil); !r.Clean() || r.Keys != 271 {
				t.Errorf("after the bridge went on: %s", counts(r))
			}
		})
	}
}

// A bridge that runs gives no false difference, and a repair beside it does no harm.
func TestVerify_BesideARunningBridge(t *testing.T) {
	for _, mode := range []postgres.Mode{postgres.InTransaction, postgres.Staged} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCompared(t, "running_"+strings.ReplaceAll(mode.String(), "-", "_"), typesSQL, postgres.Options{Mode: mode})
			c.story(100)
			c.catchUp(c.options())
			b, err := New("test", c.in, c.to, c.options())
			if err != nil {
				t.Fatal(err)
			}
			r := start(t, b)
			done := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer close(done)
				for n := 0; ctx.Err() == nil; n++ {
					value := row(n%100, n)
					if n%7 == 0 {
						value = ""
					}
					_ = c.k.cl.ProduceSync(ctx, c.record(n%100, value)).FirstErr()
				}
			}()
			for range 8 {
				v := c.verify(nil)
				if !v.Clean() || !v.Exact {
					t.Errorf("found %s", counts(v))
				}
			}
			for range 3 {
				v, err := Repair(t.Context(), "test", c.in, c.to, c.options(), nil)
				if err != nil || v.Mended != (sink.Mended{}) {
					t.Errorf("a repair of nothing: %+v, %v", v.Mended, err)
				}
			}
			// A difference in a table that is being written: the repair mends it or says that the bridge went on.
			c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, 'extra')")
			for {
				_, err := Repair(t.Context(), "test", c.in, c.to, c.options(), nil)
				if err == nil {
					break
				}
				if sink.ClassOf(err) != sink.ErrTransient || !strings.Contains(err.Error(), "repair of") && !strings.Contains(err.Error(), "repair sink") {
					t.Fatal(err)
				}
				cancel() // the bridge has nothing to read soon
			}
			cancel()
			<-done
			r.stop()
			if err := r.wait(); err != nil {
				t.Fatal(err)
			}
			c.catchUp(c.options())
			if v := c.verify(nil); !v.Clean() {
				t.Errorf("at the end: %s", counts(v))
			}
		})
	}
}

// A compacted topic whose deletes were compacted away unread leaves rows behind, which are found and deleted.
func TestVerify_MissedDeletes(t *testing.T) {
	c := newCompared(t, "missed", typesSQL, postgres.Options{})
	c.put(c.record(0, row(0, 1)), c.record(3, row(3, 1)))
	c.catchUp(c.options())
	c.put(c.record(3, ""), c.record(6, row(6, 1)))
	c.k.empty(1, 3) // the insert of 3 and its delete are gone
	c.catchUp(c.options())
	r := c.verify(nil)
	if got, want := counts(r), "keys 2 missing 0 stale 0 extra 1"; got != want {
		t.Fatalf("found %s, expected %s", got, want)
	}
	c.repair(nil)
	if got := c.db.all("SELECT k::text FROM kv ORDER BY k"); !slices.Equal(got, []string{"0", "6"}) {
		t.Errorf("the table has %q", got)
	}
	// What lies at the end of a partition may be compacted away too: nothing ever comes for it.
	c.put(c.record(9, row(9, 1)), c.record(9, ""))
	c.catchUp(c.options())
	c.k.empty(4, 6)
	if r := c.verify(nil); !r.Clean() || r.Keys != 2 {
		t.Errorf("with an empty end: %s", counts(r))
	}
}

// More keys than the memory holds are compared in several passes, with the same outcome.
func TestVerify_Passes(t *testing.T) {
	c := newCompared(t, "passes", typesSQL, postgres.Options{})
	const n = 15_000
	c.story(n)
	c.catchUp(c.options())
	c.db.exec("DELETE FROM kv WHERE k % 100 = 1")
	c.db.exec("UPDATE kv SET i = -1 WHERE k % 100 = 2")
	c.db.exec("INSERT INTO kv (k, k2) SELECT k, 'extra' FROM generate_series(1, 1500) k")
	const want = "keys 13500 missing 150 stale 150 extra 1500"
	small := &VerifyOptions{Memory: 1 << 20}
	if r := c.verify(small); counts(r) != want || r.Passes < 2 || r.Passes > 4 {
		t.Errorf("in %d passes: found %s, expected %s", r.Passes, counts(r), want)
	}
	if r := c.verify(nil); counts(r) != want || r.Passes != 1 {
		t.Errorf("in %d passes: found %s, expected %s", r.Passes, counts(r), want)
	}
	// A process that dies between two transactions of a repair leaves a part mended; the next repair finds the rest.
	ctx, cancel := context.WithCancel(t.Context())
	found := 0
	died, err := Repair(ctx, "test", c.in, c.to, c.options(), &VerifyOptions{Found: func(sink.Difference) {
		if found++; found == 1600 {
			cancel()
		}
	}})
	if err == nil {
		t.Fatal("the repair did not die")
	}
	if died.Mended.Deleted != 1000 {
		t.Errorf("before it died it deleted %d", died.Mended.Deleted)
	}
	if r := c.verify(nil); counts(r) != "keys 13500 missing 0 stale 0 extra 500" {
		t.Errorf("after it died: %s", counts(r))
	}
	c.repair(small)
	if r := c.verify(nil); !r.Clean() {
		t.Errorf("after the repair: %s", counts(r))
	}
}

// A row that somebody changed between the look and the repair is left alone.
func TestRepair_OnlyWhatIsAsSeen(t *testing.T) {
	c := newCompared(t, "seen", typesSQL, postgres.Options{})
	c.story(30)
	c.catchUp(c.options())
	c.db.exec("UPDATE kv SET i = -1 WHERE k IN (1, 2)")
	c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, ''), (1001, '')")
	c.db.exec("DELETE FROM kv WHERE k = 3")
	edits := []string{"UPDATE kv SET i = -2 WHERE k = 1", "INSERT INTO kv (k, k2) VALUES (3, 'ü,3')", "UPDATE kv SET i = 5 WHERE k = 1000"}
	r := c.repair(&VerifyOptions{Found: func(sink.Difference) {
		for _, e := range edits {
			c.db.exec(e)
		}
		edits = nil
	}})
	if want := (sink.Mended{Written: 1, Deleted: 1, Changed: 3}); r.Mended != want {
		t.Errorf("mended %+v, expected %+v", r.Mended, want)
	}
	if r := c.verify(nil); counts(r) != "keys 27 missing 0 stale 2 extra 1" {
		t.Errorf("then: %s", counts(r))
	}
}

// What the write shape makes of the topic is what is expected.
func TestVerify_Shapes(t *testing.T) {
	deleted := func(c *compared) {
		c.db.exec("DELETE FROM kv WHERE k = 1")
		c.db.exec("UPDATE kv SET i = -1 WHERE k = 2")
	}
	for _, shape := range []struct {
		name, table string
		o           postgres.Options
		plant       func(c *compared)
		want        string
		mended      sink.Mended
		noExtra     bool
	}{
		{"soft", typesSQL + ", gone boolean NOT NULL DEFAULT false", postgres.Options{SoftDelete: postgres.SoftDelete{Column: "gone"}}, func(c *compared) {
			deleted(c)
			c.db.exec("UPDATE kv SET gone = true WHERE k = 3")  // by hand
			c.db.exec("UPDATE kv SET gone = false WHERE k = 0") // a delete that was missed
			c.db.exec("DELETE FROM kv WHERE k = 10")            // was marked: nobody needs it
		}, "keys 27 missing 1 stale 2 extra 1", sink.Mended{Written: 3, Deleted: 1}, false},
		{"clock", typesSQL + ", gone timestamptz", postgres.Options{SoftDelete: postgres.SoftDelete{Column: "gone", Deleted: postgres.Now}}, func(c *compared) {
			deleted(c)
			c.db.exec("UPDATE kv SET gone = NULL WHERE k = 0")
		}, "keys 27 missing 1 stale 1 extra 1", sink.Mended{Written: 2, Deleted: 1}, false},
		{"word", typesSQL + ", gone text", postgres.Options{SoftDelete: postgres.SoftDelete{Column: "gone", Deleted: "it's gone", Live: "no"}}, func(c *compared) {
			deleted(c)
			c.db.exec("UPDATE kv SET gone = 'no' WHERE k = 0")
		}, "keys 27 missing 1 stale 1 extra 1", sink.Mended{Written: 2, Deleted: 1}, false},
		{"kept", typesSQL, postgres.Options{IgnoreDeletes: true}, func(c *compared) {
			deleted(c)
			c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, 'not judged')")
		}, "keys 30 missing 1 stale 1 extra 0", sink.Mended{Written: 2}, true},
		{"audit", typesSQL + ", topic text, part integer, pos bigint, at timestamptz", postgres.Options{SkipUnchanged: true, Audit: postgres.AuditColumns{Topic: "topic", Partition: "part", Offset: "pos", Time: "at"}}, func(c *compared) {
			deleted(c)
			c.db.exec("UPDATE kv SET pos = 12345, topic = 'x' WHERE k = 3")
		}, "keys 27 missing 1 stale 1 extra 0", sink.Mended{Written: 2}, false},
		{"renamed", strings.NewReplacer("i integer", `"odd ""i""" integer`, "k2 text", `"K 2" text`, "(k, k2)", `(k, "K 2")`).Replace(typesSQL), postgres.Options{Columns: map[string]string{"x": "", "i": `odd "i"`, "k2": "K 2", "s": ""}}, func(c *compared) {
			c.db.exec("DELETE FROM kv WHERE k = 1")
			c.db.exec(`UPDATE kv SET "odd ""i""" = -1 WHERE k = 2`)
			c.db.exec(`UPDATE kv SET s = 'left out' WHERE k = 3`)
			c.db.exec(`INSERT INTO kv (k, "K 2") VALUES (1000, 'extra')`)
		}, "keys 27 missing 1 stale 1 extra 1", sink.Mended{Written: 2, Deleted: 1}, false},
		{"partitioned", typesSQL + ") PARTITION BY HASH (k", postgres.Options{}, func(c *compared) {
			deleted(c)
			c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, 'extra'), (1001, 'extra')")
		}, "keys 27 missing 1 stale 1 extra 2", sink.Mended{Written: 2, Deleted: 2}, false},
	} {
		t.Run(shape.name, func(t *testing.T) {
			c := newCompared(t, shape.name, shape.table, shape.o)
			if shape.name == "partitioned" {
				c.db.exec("CREATE TABLE kv0 PARTITION OF kv FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE kv1 PARTITION OF kv FOR VALUES WITH (MODULUS 2, REMAINDER 1)")
			}
			c.story(30)
			c.catchUp(c.options())
			if r := c.verify(nil); !r.Clean() || (r.NoExtra != "") != shape.noExtra {
				t.Fatalf("of an intact table: %+v", r)
			}
			shape.plant(c)
			if r := c.verify(nil); counts(r) != shape.want {
				t.Errorf("found %s, expected %s", counts(r), shape.want)
			}
			if r := c.repair(nil); r.Mended != shape.mended {
				t.Errorf("mended %+v, expected %+v", r.Mended, shape.mended)
			}
			if r := c.verify(nil); !r.Clean() {
				t.Errorf("after the repair: %s", counts(r))
			}
		})
	}
}

// What cannot be judged is said, and not called a difference.
func TestVerify_NotJudged(t *testing.T) {
	c := newCompared(t, "limits", typesSQL, postgres.Options{})
	c.story(30)
	bad := strings.Replace(row(31, 1), "6f9619ff", "no uuid", 1)
	c.put(c.record(31, row(31, 1)), c.record(31, bad), c.record(32, "no JSON"))
	o := c.options()
	o.OnData = Skip
	c.catchUp(o)
	r := c.verify(nil)
	if !r.Clean() || r.Unwritable != 1 || r.Unreadable != 1 {
		t.Errorf("with bad data: %+v", r)
	}
	// The beginning of the topic goes: rows whose changes were there are no longer known to be extra.
	var offsets kadm.Offsets
	offsets.AddOffset("texts", 1, 5, -1)
	if _, err := c.k.adm.DeleteRecords(t.Context(), offsets); err != nil {
		t.Fatal(err)
	}
	c.db.exec("INSERT INTO kv (k, k2) VALUES (1000, 'not judged')")
	if r := c.verify(nil); r.Extra != 0 || r.NoExtra != "texts/1 begins at offset 5: the topic does not have all rows any more" {
		t.Errorf("after retention: %+v", r)
	}
}

// Settings and states in which nothing can be compared are refused before anything is read.
func TestVerify_Refuses(t *testing.T) {
	c := newCompared(t, "refuses", typesSQL, postgres.Options{})
	c.story(30)
	call := func(name string, in Input, v *VerifyOptions) error {
		_, err := Verify(t.Context(), name, in, c.to, c.options(), v)
		return err
	}
	late := c.in
	late.Start = Start{Mode: StartLatest}
	keyless := c.in
	keyless.Decoder = texts{&changelog.Table{Name: "texts", Mode: changelog.Append, Schema: &changelog.Schema{Columns: c.in.Decoder.Table().Schema.Columns[:2]}}}
	for _, x := range []struct {
		err  error
		want string
	}{
		{call("test", c.in, nil), "no bridge has stored anything"},
		{call("", c.in, nil), "a bridge has to be named"},
		{call("test", keyless, nil), `table "texts" has no key`},
		{call("test", late, nil), "VerifyOptions.From"},
		{call("test", c.in, &VerifyOptions{Memory: 1}), "VerifyOptions.Memory"},
	} {
		if sink.ClassOf(x.err) != sink.ErrConfig || !strings.Contains(x.err.Error(), x.want) {
			t.Errorf("got %v, expected %q", x.err, x.want)
		}
	}
	c.catchUp(c.options())
	if err := call("other", c.in, nil); sink.ClassOf(err) != sink.ErrConfig || !strings.Contains(err.Error(), `no positions of bridge "other"`) {
		t.Errorf("got %v", err)
	}
	late.Start = Start{Mode: StartOffsets}
	v := &VerifyOptions{From: []changelog.Position{{Partition: changelog.Partition{Topic: "texts", Partition: 0}, Offset: 12}}}
	if r, err := Verify(t.Context(), "test", late, c.to, c.options(), v); err != nil || r.Missing != 0 || r.Extra == 0 {
		t.Errorf("from an offset: %+v, %v", r, err)
	}
}

// Where the positions are kept elsewhere, rows and positions are not of one moment: keys that change are left out, and a repair is refused.
func TestVerify_PositionsElsewhere(t *testing.T) {
	c := newCompared(t, "elsewhere", typesSQL, postgres.Options{Mode: postgres.Staged})
	g := newTarget()
	o := options(g)
	c.story(30)
	c.catchUp(o)
	o.UntilEnd = false
	c.put(c.record(1, row(1, 9)), c.record(3, ""), c.record(100, row(100, 1)))
	c.db.exec("UPDATE kv SET i = 9 WHERE k = 1")                         // as if that had been written
	c.db.exec("DELETE FROM kv WHERE k = 3")                              // and that
	c.db.exec("INSERT INTO kv (k, k2) VALUES (100, 'ü,100'), (101, '')") // and half of that
	r, err := Verify(t.Context(), "test", c.in, c.to, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Exact || r.Moving != 3 || counts(r) != "keys 25 missing 0 stale 0 extra 1" {
		t.Errorf("%+v", r)
	}
	_, err = Repair(t.Context(), "test", c.in, c.to, o, nil)
	var e *sink.Error
	if !errors.As(err, &e) || e.Class != sink.ErrConfig {
		t.Errorf("a repair: %v", err)
	}
}
