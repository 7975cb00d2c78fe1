package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
)

// SuccessOptions are the settings of [Success].
type SuccessOptions struct {
	// Bridge, Sink and Table name whose folders are marked. Required.
	Bridge, Sink, Table string
	// Partitions are all partitions of the topic whose rows the folders hold. Required, as nobody else knows them: a partition that had no row yet is
	// in no manifest. One that is left out, because it is idle, holds nothing back.
	Partitions []changelog.Partition
	// PartitionBy is that of the sink's Options, with at least one Layout. Together the layouts say when a folder's time begins.
	PartitionBy []PartitionField
	// Every is how long a folder's time is: 24 hours for days, an hour for hours. Required.
	Every time.Duration
	// Lateness is how much earlier than the latest event time of its partition a row may still come. Defaults to 0: times of a partition only rise.
	Lateness time.Duration
	// Back is how far back manifests are read, by the time of their writing. A partition without a row since then holds everything back. Defaults
	// to 7 days.
	Back time.Duration
	// Settings go with every object that is written.
	Settings Settings
}

// SuccessResult says what a call found.
type SuccessResult struct {
	// Watermark is the time before which no row is expected; zero while a partition is Waiting.
	Watermark time.Time
	// Waiting are partitions without an event time in what was read.
	Waiting []changelog.Partition
	// Closed are folders that were marked by this call, as keys.
	Closed []string
	// Late are folders that had been marked and have got rows since.
	Late []string
}

const (
	successName = "_SUCCESS"
	defaultBack = 7 * 24 * time.Hour
)

// Success writes an object _SUCCESS into each folder whose time is over. Whoever wants to calls it, a timer or an operator, as often as needed and from any
// number of places; it needs Options.Manifest and Options.EventTime.
//
// It is a function over manifests, and no work of the lanes, since no lane knows enough: a folder is complete when every partition of the topic has
// passed its end, and each lane sees some of them, for as long as it lives. Manifests do know. A partition has one lane at a time, which writes
// the manifest of a checkpoint before it writes a row of the next, and a successor writes those of its predecessors before its first row. So where a
// manifest tells an event time T of a partition, all rows of it up to that checkpoint are visible. Then, if Lateness holds for the data, rows still to come are
// not before T - Lateness. The least such time of all partitions is the watermark, and folders that end at or before it are complete. One that is seen
// too early, since a listing is no snapshot, is only marked by the next call.
//
// Whether Lateness holds, the data alone decides. A row that comes later is written into its folder all the same, as a new file: nothing is dropped, and a
// mark is never taken back. Such folders are in Late, at every call while their files are within Back. A time in the future, by this host's clock,
// counts as now. Messages that were set aside (dead letters) are in no folder and hold none back.
func Success(ctx context.Context, client *s3.Client, bucketName, prefix string, o SuccessOptions) (SuccessResult, error) {
	m, err := newMarker(client, bucketName, prefix, o)
	if err != nil {
		return SuccessResult{}, &sink.Error{Op: "mark", Sink: o.Sink, Bridge: o.Bridge, Class: sink.ErrConfig, Err: err}
	}
	err = m.run(ctx)
	return m.result, wrap(ctx, "mark", o.Sink, o.Bridge, classifyOrNil(err), err)
}

type marker struct {
	b       bucket
	o       SuccessOptions
	dir     string // of the sink's own objects
	prefix  string
	table   string // folder of the table, with a slash
	layout  string
	seen    map[changelog.Partition]time.Time
	at      map[changelog.Partition]int64 // positions up to which rows are visible
	folders map[string]map[changelog.Partition]int64
	result  SuccessResult
}

func newMarker(client *s3.Client, bucketName, prefix string, o SuccessOptions) (*marker, error) {
	var errs []error
	if err := place(client, bucketName, prefix); err != nil {
		errs = append(errs, err)
	}
	if o.Bridge == "" || o.Sink == "" || o.Table == "" {
		errs = append(errs, errors.New("name SuccessOptions.Bridge, Sink and Table"))
	}
	if len(o.Partitions) == 0 {
		errs = append(errs, errors.New("SuccessOptions.Partitions is empty: name all partitions of the topic"))
	}
	var layouts []string
	for _, f := range o.PartitionBy {
		if f.Layout != "" {
			layouts = append(layouts, f.Layout)
		}
	}
	if len(layouts) == 0 {
		errs = append(errs, errors.New("SuccessOptions.PartitionBy has no Layout: pass what the sink was given"))
	}
	if o.Every <= 0 || o.Lateness < 0 || o.Back < 0 {
		errs = append(errs, errors.New("SuccessOptions.Every has to be how long a folder's time is, and Lateness and Back not negative"))
	}
	o.Back = orDefault(o.Back, defaultBack)
	prefix = strings.Trim(prefix, "/")
	return &marker{b: bucket{api: client, name: bucketName, settings: o.Settings}, o: o, prefix: prefix, dir: newNames(prefix, o.Bridge, o.Sink).own(),
		table: path.Join(prefix, escape(o.Table)) + "/", layout: strings.Join(layouts, " "), seen: map[changelog.Partition]time.Time{},
		at: map[changelog.Partition]int64{}, folders: map[string]map[changelog.Partition]int64{}}, errors.Join(errs...)
}

func (m *marker) run(ctx context.Context) error {
	since := time.Now().Add(-m.o.Back)
	err := m.b.listAll(ctx, path.Join(m.dir, manifestFolder)+"/", "", func(key string, at time.Time) error {
		if before(at, since) || !strings.HasSuffix(key, ".json") {
			return nil
		}
		body, _, ok, err := m.b.get(ctx, key)
		if err != nil || !ok {
			return err
		}
		one, err := parseManifest(body)
		if err != nil {
			return errorf(sink.ErrConfig, "manifest %s: %w", brief(key), err)
		}
		m.read(one)
		return nil
	})
	if err != nil || !m.watermark() {
		return err
	}
	var keys []string
	for f := range m.folders {
		keys = append(keys, f)
	}
	slices.Sort(keys)
	for _, f := range keys {
		if begin, ok := m.begin(f); ok && !begin.Add(m.o.Every).After(m.result.Watermark) {
			if err := m.mark(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *marker) read(one *Manifest) {
	for _, e := range one.EventTimes {
		p := changelog.Partition{Topic: e.Topic, Partition: e.Partition}
		if e.Table == m.o.Table && e.Max.After(m.seen[p]) {
			m.seen[p] = e.Max
		}
	}
	to := map[changelog.Partition]int64{}
	for _, q := range one.To {
		p := changelog.Partition{Topic: q.Topic, Partition: q.Partition}
		to[p] = q.Offset
		m.at[p] = max(m.at[p], q.Offset)
	}
	for _, f := range one.Files {
		if f.Table != m.o.Table || !strings.HasPrefix(f.Key, m.table) {
			continue
		}
		folder := path.Dir(f.Key)
		if m.folders[folder] == nil {
			m.folders[folder] = map[changelog.Partition]int64{}
		}
		for p, offset := range to {
			m.folders[folder][p] = max(m.folders[folder][p], offset)
		}
	}
}

// watermark computes it; false: there is none yet.
func (m *marker) watermark() bool {
	now := time.Now()
	for _, p := range m.o.Partitions {
		t, ok := m.seen[p]
		if !ok {
			m.result.Waiting = append(m.result.Waiting, p)
			continue
		}
		if t.After(now) {
			t = now
		}
		if t = t.Add(-m.o.Lateness).UTC(); m.result.Watermark.IsZero() || t.Before(m.result.Watermark) {
			m.result.Watermark = t
		}
	}
	if len(m.result.Waiting) > 0 {
		m.result.Watermark = time.Time{}
	}
	return len(m.result.Waiting) == 0
}

// begin reads the time out of a folder's name. Rows without a time are in a folder that never closes.
func (m *marker) begin(folder string) (time.Time, bool) {
	words := strings.Split(strings.TrimPrefix(folder, m.table), "/")
	if len(words) != len(m.o.PartitionBy) {
		return time.Time{}, false
	}
	var values []string
	for i, f := range m.o.PartitionBy {
		v, ok := strings.CutPrefix(words[i], string(appendHive(nil, []byte(f.folder())))+"=")
		if !ok {
			return time.Time{}, false
		}
		if f.Layout == "" {
			continue
		}
		plain, err := url.PathUnescape(v) // Hive's escapes are those of a URL's path
		if err != nil {
			return time.Time{}, false
		}
		values = append(values, plain)
	}
	t, err := time.Parse(m.layout, strings.Join(values, " "))
	return t, err == nil
}

// successBody is what a mark says: up to where the topic's partitions were visible. What goes beyond came later.
type successBody struct {
	Format    int       `json:"format"` // 1
	Watermark time.Time `json:"watermark"`
	Positions []Offset  `json:"positions"`
}

// mark writes the mark of a folder, or finds one and looks whether rows came after it.
func (m *marker) mark(ctx context.Context, folder string) error {
	key := folder + "/" + successName
	body, _, ok, err := m.b.get(ctx, key)
	if err != nil {
		return err
	}
	if ok {
		var was successBody
		if json.Unmarshal(body, &was) != nil || was.Format != manifestVersion {
			return nil // another program's
		}
		then := map[changelog.Partition]int64{}
		for _, q := range was.Positions {
			then[changelog.Partition{Topic: q.Topic, Partition: q.Partition}] = q.Offset
		}
		for p, offset := range m.folders[folder] {
			if offset > then[p] {
				m.result.Late = append(m.result.Late, folder)
				break
			}
		}
		return nil
	}
	is := successBody{Format: manifestVersion, Watermark: m.result.Watermark}
	for p, offset := range m.at {
		is.Positions = append(is.Positions, Offset{p.Topic, p.Partition, offset})
	}
	slices.SortFunc(is.Positions, func(a, b Offset) int {
		return changelog.Partition{Topic: a.Topic, Partition: a.Partition}.Compare(changelog.Partition{Topic: b.Topic, Partition: b.Partition})
	})
	if body, err = json.Marshal(is); err != nil {
		return fmt.Errorf("a mark: %w", err)
	}
	_, err = m.b.put(ctx, key, append(body, '\n'), condition{absent: true}, "")
	if isPrecondition(err) || isConflict(err) {
		return nil // another call was first
	}
	if statusOf(err) == 501 { // a server without conditions: two calls at once write marks that are both right
		_, err = m.b.put(ctx, key, append(body, '\n'), condition{}, "")
	}
	if err == nil {
		m.result.Closed = append(m.result.Closed, folder)
	}
	return err
}
