package s3_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/changelog/format/debezium"
	"github.com/flinksink/flinksink/changelog/format/raw"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/avro"
	"github.com/flinksink/flinksink/sink/s3/parquet"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// What goes with every object goes with data, staged and copied objects, and the sink's own.
func TestSettings_PassThrough(t *testing.T) {
	settings := s3.Settings{StorageClass: types.StorageClassStandardIa, Encryption: types.ServerSideEncryptionAwsKms, KMSKey: "key-1", BucketKey: true, Tagging: "team=data", RequesterPays: true}
	for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
		e := newFake(t)
		w := e.writer(e.sink(&s3.Options{Mode: mode, Manifest: true, Settings: settings}).Lower(0, 0, 0, 0, 10), events(t))
		w.put(1)
		for _, k := range append(e.dataKeys(), e.keys("lake/_flinksink/bridge/lake/")...) {
			h := e.fake.Header(e.bucket, k)
			for name, want := range map[string]string{"X-Amz-Storage-Class": "STANDARD_IA", "X-Amz-Server-Side-Encryption": "aws:kms",
				"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "key-1", "X-Amz-Server-Side-Encryption-Bucket-Key-Enabled": "true", "X-Amz-Tagging": "team=data"} {
				if h.Get(name) != want {
					t.Errorf("mode %d: %s has %s %q", mode, k, name, h.Get(name))
				}
			}
		}
		for _, r := range e.fake.Requests() {
			if strings.Contains(r.Key, "lake/events/") && r.Header.Get("X-Amz-Request-Payer") != "requester" {
				t.Errorf("mode %d: %s has no x-amz-request-payer", mode, r.Op)
			}
		}
	}
}

func TestNew_Mistakes(t *testing.T) {
	_, err := s3.New(nil, "a/b", "x//y", &s3.Options{Mode: 9, Kind: 9, PartSize: 1, Level: 3, MaxFileRows: -1, Settings: s3.Settings{KMSKey: "k"}, PartitionBy: []s3.PartitionField{{}}})
	is(t, err, sink.ErrConfig, "client is nil", `"a/b"`, "prefix", "Options.Mode", "Options.Kind", "PartSize", "Options.Level", "MaxFileRows", "KMSKey", "PartitionBy[0]")
	e := newFake(t)
	_, err = s3.New(e.api, "b", "", &s3.Options{Format: parquet.New(nil), Compression: s3.Gzip})
	is(t, err, sink.ErrConfig, "Options.Compression")
	_, err = s3.NewStore(nil, "", "", s3.Settings{})
	is(t, err, sink.ErrConfig, "client is nil")
	_, err = s3.NewReader(e.api, "b", "", &s3.ReaderOptions{Bridge: "b"})
	is(t, err, sink.ErrConfig, "ReaderOptions.Bridge")
}

func TestLane_Refuses(t *testing.T) {
	e := newFake(t)
	upsert := func(key string) *changelog.Table {
		return table(t, "kv", "[I,UA,D]", key, "k BIGINT NOT NULL", "v STRING", "t TIME(3)")
	}
	appended := table(t, "a", "[I]", "", "k BIGINT", "v STRING")
	for what, c := range map[string]struct {
		o     s3.Options
		table *changelog.Table
		say   []string
	}{
		"changes into AppendOnly":       {s3.Options{}, upsert("k"), []string{"kv", "Options.Kind", "Changelog", "Upsert"}},
		"Upsert without a key":          {s3.Options{Kind: s3.Upsert}, upsert(""), []string{"PRIMARY KEY", "Changelog"}},
		"a TIME that json cuts off":     {s3.Options{Kind: s3.Changelog}, upsert("k"), []string{`"t"`, "TIME(0)"}},
		"folders of a column not there": {s3.Options{PartitionBy: []s3.PartitionField{{Column: "x"}}}, appended, []string{`"x"`}},
		"folders beside the key":        {s3.Options{Kind: s3.Upsert, Format: parquet.New(nil), PartitionBy: []s3.PartitionField{{Column: "v"}}}, upsert("k"), []string{`"v"`, "PRIMARY KEY"}},
		"raw of two columns":            {s3.Options{Format: s3.Lines(raw.Format{}, nil)}, appended, []string{"raw"}},
		"a format with kinds":           {s3.Options{Format: s3.Lines(debezium.Format{}, nil)}, appended, []string{"debezium-json", "Options.Kind"}},
		"a column that Kind adds":       {s3.Options{Kind: s3.Changelog}, table(t, "a", "[I]", "", "_op STRING"), []string{"_op", "rename"}},
		"an Avro map of numbers":        {s3.Options{Format: avro.New(nil)}, table(t, "a", "[I]", "", "m MAP<INT, INT>"), []string{`"m"`, "text"}},
	} {
		s, err := s3.New(e.api, e.bucket, "lake", &c.o)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		_, err = s.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(c.table)})
		is(t, err, sink.ErrConfig, c.say...)
	}
	s, err := s3.New(e.api, "no-such-bucket", "lake", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(appended)})
	is(t, err, sink.ErrConfig, "no-such-bucket", "make it")
	e.on("HeadBucket", 1, s3test.Fault{Status: 403, Code: "AccessDenied"})
	_, err = e.sink(nil).Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(appended)})
	is(t, err, sink.ErrConfig, "s3:AbortMultipartUpload")
	gone := e.sink(nil, func(o *awss3.Options) { o.BaseEndpoint = new("http://127.0.0.1:1") })
	_, err = gone.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(appended)})
	is(t, err, sink.ErrTransient)
}

// Changes that can never be written are named, by message and column, and without a value.
func TestWrite_Rejects(t *testing.T) {
	const secret = "s3cret"
	for what, c := range map[string]struct {
		o      s3.Options
		row    changelog.Row
		column string
	}{
		"not sent":     {s3.Options{}, changelog.Row{num(1), changelog.UnchangedValue()}, "v"},
		"no UTF-8":     {s3.Options{}, changelog.Row{num(1), str(secret + "\xff")}, "v"},
		"too narrow":   {s3.Options{}, changelog.Row{num(1)}, ""},
		"in Parquet":   {s3.Options{Format: parquet.New(nil)}, changelog.Row{num(1), str(secret + "\xff")}, "v"},
		"in Avro":      {s3.Options{Format: avro.New(nil)}, changelog.Row{num(1), str(secret + "\xff")}, "v"},
		"long folders": {s3.Options{PartitionBy: []s3.PartitionField{{Column: "v"}}}, changelog.Row{num(1), str(strings.Repeat(secret, 60))}, "v"},
		"two lines":    {s3.Options{Format: s3.Lines(raw.Format{}, nil)}, changelog.Row{str(secret + "\n" + secret)}, ""},
	} {
		e := newFake(t)
		tb := events(t)
		if what == "two lines" {
			tb = table(t, "events", "[I]", "", "v STRING")
		}
		w := e.writer(e.sink(&c.o), tb)
		w.at = 5
		err := w.write(w.change(changelog.Insert, c.row...))
		var se *sink.Error
		if !errors.As(err, &se) || se.Class != sink.ErrRejected || len(se.Rejected) != 1 || se.Rejected[0].Offset != 5 || se.Rejected[0].Column != c.column {
			t.Errorf("%s: %v", what, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows a value: %v", what, err)
		}
		if _, err := w.prepare(); err == nil {
			t.Errorf("%s: the checkpoint was prepared all the same", what)
		}
	}
}

// Every format and compression through the whole sink: what a reader of the manifest opens are the rows.
func TestReader_EveryFormat(t *testing.T) {
	for what, o := range map[string]s3.Options{
		"json":    {},
		"gzip":    {Compression: s3.Gzip, Level: 9},
		"zstd":    {Compression: s3.Zstd, MaxFileRows: 100},
		"csv":     {Format: s3.Lines(csv.Format{}, map[string]string{"field-delimiter": ";"})},
		"parquet": {Format: parquet.New(nil)},
		"avro":    {Format: avro.New(nil)},
	} {
		e := newFake(t)
		o.Manifest = true
		w := e.writer(e.sink(&o), events(t))
		for range 3 {
			w.put(250)
		}
		r, err := s3.NewReader(e.api, e.bucket, "lake", &s3.ReaderOptions{Bridge: "bridge", Sink: "lake"})
		if err != nil {
			t.Fatal(err)
		}
		rows, n := int64(0), 0
		for m, err := range r.Manifests(t.Context()) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, f := range m.Files {
				body, err := r.Open(t.Context(), f)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				b, err := io.ReadAll(body)
				if err != nil || body.Close() != nil {
					t.Errorf("%s: %v", what, err)
				}
				rows += f.Rows
				n += len(lines(b))
			}
		}
		if rows != 750 {
			t.Errorf("%s: the manifests count %d rows", what, rows)
		}
		if what != "parquet" && what != "avro" && n != 750 {
			t.Errorf("%s: the files have %d lines", what, n)
		}
		after, err := s3.NewReader(e.api, e.bucket, "lake", &s3.ReaderOptions{Bridge: "bridge", Sink: "lake", AfterGeneration: 1, AfterCheckpoint: 2})
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for m, err := range after.Manifests(t.Context()) {
			if err != nil || m.Checkpoint != 3 {
				t.Errorf("%s: after checkpoint 2 comes %v, %v", what, m, err)
			}
			left++
		}
		if left != 1 {
			t.Errorf("%s: %d checkpoints after the second", what, left)
		}
	}
}

// What is not what the manifest says is an error, and not a shorter file.
func TestReader_Refuses(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	w.put(5)
	key := e.dataKeys()[0]
	r, err := s3.NewReader(e.api, e.bucket, "lake", nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		for m, err := range r.Manifests(t.Context()) {
			if err != nil {
				return err
			}
			body, err := r.Open(t.Context(), m.Files[0])
			if err != nil {
				return err
			}
			defer body.Close()
			_, err = io.Copy(io.Discard, body)
			return err
		}
		return errors.New("no manifest")
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	e.putObject(key, string(e.get(key)[:20]), "")
	is(t, read(), sink.ErrLost, "manifest says")
	e.remove(key)
	is(t, read(), sink.ErrLost)
	name := e.keys("lake/_flinksink/bridge/lake/manifest/")[0]
	for _, text := range []string{"{", `{"format": 2}`, `{"format": 1, "files": [{}]}`} {
		e.putObject(name, text, "")
		is(t, read(), sink.ErrConfig)
	}
}

// A retention that took the files away does not make a Commit that comes again a loss: the manifest remembers.
func TestCommit_AfterRetention(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{Manifest: true}), events(t))
	d := w.put(5)
	for _, k := range e.dataKeys() {
		e.remove(k)
	}
	w.must(w.c.Commit(t.Context(), d))
	e.holds(0, "after a Commit that came again")
}

// The object of a long receipt is read by whoever commits, and its loss is a loss.
func TestReceipt_Object(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(&s3.Options{MaxFileRows: 1}).Lower(0, 0, 0, 0, 300), events(t))
	w.must(w.rows(20))
	d, err := w.prepare()
	w.must(err)
	w.must(w.save(d))
	var short struct{ Object string }
	if err := json.Unmarshal(d.Data, &short); err != nil || short.Object == "" {
		t.Fatalf("the receipt is %s", d.Data)
	}
	body := string(e.get(short.Object))
	e.putObject(short.Object, body+" ", "")
	is(t, w.c.Commit(t.Context(), d), sink.ErrLost, "not what was written")
	e.remove(short.Object)
	is(t, w.c.Commit(t.Context(), d), sink.ErrLost, "is gone")
	e.putObject(short.Object, body, "")
	w.must(w.c.Commit(t.Context(), d))
	e.holds(20, "after the receipt came back")
	// The receipt of an Abort goes with it, and one of a fenced Prepare too.
	w.must(w.rows(20))
	d, err = w.prepare()
	w.must(err)
	w.must(w.c.Abort(t.Context(), d))
	w.must(w.c.Abort(t.Context(), d))
	w.must(w.acquire())
	if keys := e.keys("lake/_flinksink/bridge/lake/receipt/"); len(keys) != 1 {
		t.Errorf("receipts that are left: %v", keys)
	}
}

// The state's object that is gone, damaged or of a later release is never a fresh start.
func TestStore_RefusesWhatItCannotRead(t *testing.T) {
	e := newFake(t)
	w := e.writer(e.sink(nil), events(t))
	w.put(1)
	key, marker := "lake/_flinksink/bridge/store.json", "lake/_flinksink/bridge/began"
	good := string(e.get(key))
	for text, class := range map[string]error{
		"": sink.ErrLost, good[:len(good)/2]: sink.ErrLost, `{"name": "package"}`: sink.ErrConfig, strings.Replace(good, `"format": 1`, `"format": 2`, 1): sink.ErrConfig,
	} {
		e.putObject(key, text, "")
		is(t, w.acquire(), class)
		if string(e.get(key)) != text {
			t.Errorf("%.20q was altered", text)
		}
	}
	e.remove(key)
	is(t, w.acquire(), sink.ErrLost, key, marker)
	e.remove(marker)
	w.must(w.acquire())
	if w.claim.Generation.ID != 1 {
		t.Errorf("a fresh start is generation %d", w.claim.Generation.ID)
	}
	_, err := w.store.Read(t.Context(), "")
	is(t, err, sink.ErrConfig)
}

// A process looks for the state of a bridge that has none; before it looks for the marker another one begins the bridge. That is no state that is gone.
func TestStore_TwoBeginAtOnce(t *testing.T) {
	e := newFake(t)
	begin := func() sink.Claim {
		store, err := s3.NewStore(e.client(nil), e.bucket, "lake", s3.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := store.Acquire(t.Context(), sink.AcquireRequest{Bridge: "bridge", Fingerprint: "f", Owner: "test", Partitions: []changelog.Partition{part0}, GroupGeneration: -1})
		if err != nil {
			t.Error(err)
		}
		return claim
	}
	quick := 0
	e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
		if quick == 0 && r.Op == "HeadObject" && strings.HasSuffix(r.Key, "/began") {
			quick = 1
			begin()
		}
		return nil
	}
	if slow := begin(); quick != 1 || slow.Generation.ID != 2 {
		t.Errorf("the slower one is generation %d", slow.Generation.ID)
	}
}

// Memory of a lane is bounded by its parts, whatever the checkpoint holds.
func TestWrite_BoundedMemory(t *testing.T) {
	e := newFake(t)
	most := 0
	e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
		if r.Op == "UploadPart" {
			most = max(most, r.Size)
		}
		return nil
	}
	w := e.writer(e.sink(&s3.Options{MaxFileBytes: 100_000, Uploads: 1}).Lower(10_000, 0, 0, 0, 0), events(t))
	for range 50 {
		w.must(w.rows(1000))
	}
	w.finish()
	e.holds(50_000, "at the end")
	if most > 11_000 || most < 10_000 {
		t.Errorf("the largest part has %d bytes", most)
	}
	if n := len(e.dataKeys()); n < 15 {
		t.Errorf("%d files of 100,000 bytes", n)
	}
}
