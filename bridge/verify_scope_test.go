package bridge

import (
	"errors"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/postgres"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Where the positions are elsewhere, the fingerprint tells a target that the bridge does not write to.
func TestVerify_OtherTarget(t *testing.T) {
	for _, c := range []struct{ fingerprint, name, want string }{
		{"group=g topics=t target=elastic orders", "elastic orders", ""},
		{"group=g topics=t target=elastic orders", "elastic others", "elastic orders"},
		{`group=g topics=t target=elastic orders; postgres into "public"."orders"`, "elastic others", "elastic orders"},
		{`group=g topics=t target=elastic a; elastic b; postgres into "public"."orders"`, "elastic b", ""},
		{`group=g topics=t target=elastic a; elastic b`, "elastic c", "elastic a and elastic b"},
		{`group=g topics=t target=postgres into "public"."orders"`, "postgres", ""},
		{"group=g topics=t target=of the user's own", "elastic orders", ""},
		{"", "elastic orders", ""},
	} {
		if got := writesTo(c.fingerprint, c.name); got != c.want {
			t.Errorf("%s, %s: %q", c.fingerprint, c.name, got)
		}
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
