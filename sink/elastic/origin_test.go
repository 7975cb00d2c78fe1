package elastic

import (
	"encoding/json"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// What a document says of itself is read as it was written, and what something else wrote there is not taken for it.
func TestOrigin(t *testing.T) {
	c := &committer{incarnation: 7, metaName: []byte(`"m":`), topicIDs: map[string]string{"a.b_c-1": "4J_wAAAAQ4aZzq0AAAAAAA"}}
	for _, want := range []origin{
		{topic: "a.b_c-1", topicID: "4J_wAAAAQ4aZzq0AAAAAAA", partition: 3, offset: 1 << 47, incarnation: 7},
		{topic: "other", partition: 0, offset: 0, incarnation: 7},
	} {
		ch := changelog.Change{Partition: changelog.Partition{Topic: want.topic, Partition: want.partition}, Offset: want.offset}
		var doc map[string]from
		if err := json.Unmarshal(append(c.appendMeta([]byte("{"), &ch), '}'), &doc); err != nil {
			t.Fatal(err)
		}
		if got, ok := doc["m"].origin(); !ok || got != want {
			t.Errorf("read %+v, %t of %s, expected %+v", got, ok, doc["m"].At, want)
		}
	}
	for _, text := range []string{"", "orders", "orders/0", "orders/0/1", "/0/1/2", "orders/x/1/2", "orders/0/x/2", "orders/0/1/x", "orders/0/1/-1", "orders/0/1/65536", "orders/4294967296/1/2", "orders/0/1/2/id/more"} {
		if o, ok := (from{text}).origin(); ok {
			t.Errorf("%q is read as %+v", text, o)
		}
	}
}
