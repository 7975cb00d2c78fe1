package statuspage_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/flinksink/flinksink/bridge/statuspage"
)

// The report of a bridge that ran agrees with what it did.
func TestHandler_Bridge(t *testing.T) {
	b, stop, err := bridgeOf(t.Context(), "hello", "world", "again")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	h := statuspage.Handler(b)
	look := func() statuspage.Bridge {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/status.json", nil))
		var r statuspage.Report
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Bridges) != 1 {
			t.Fatalf("%d bridges", len(r.Bridges))
		}
		return r.Bridges[0]
	}
	if got := look(); got.State != statuspage.StateNew || got.Healthy || got.Started != nil || got.Generation != nil || got.Last != nil || got.Lag != nil {
		t.Errorf("before Run: %+v", got)
	}
	if err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := look()
	if got.State != statuspage.StateStopped || got.Error != nil || got.Ended == nil || got.Last == nil || got.Last.Checkpoint == 0 || got.Checkpoints == 0 {
		t.Errorf("after Run: %+v", got)
	}
	if c := got.Counters; c.Records != 3 || c.Read != 3 || c.Applied != 3 || !c.Balanced {
		t.Errorf("counters %+v", c)
	}
	if len(got.Lanes) != 1 || got.Lanes[0].Generation == nil || got.Lanes[0].Partitions != 1 || got.Lanes[0].Decided == nil {
		t.Errorf("lanes %+v", got.Lanes)
	}
	if len(got.Partitions) != 1 || got.Partitions[0].Topic != "greetings" || got.Partitions[0].Saved == nil || *got.Partitions[0].Saved != 3 {
		t.Errorf("partitions %+v", got.Partitions)
	}
	if got.Lag == nil || *got.Lag != 0 || got.Guarantee.Level != "exactly once" {
		t.Errorf("lag %v, guarantee %+v", got.Lag, got.Guarantee)
	}
}
