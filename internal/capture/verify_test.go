package capture

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// The check at the end of Load must see a transaction that came out another way than it was to.
func TestVerify_Catches(t *testing.T) {
	ctx := testContext(t)
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := Load(ctx, c.ListenAddrs(), "t", 1, history("aac.c")); err != nil {
		t.Fatal(err)
	}
	for picture, want := range map[string]string{
		"aac.c": "",
		"acc.c": "offset 1 is not visible",
		"aaa.c": "offset 2 is visible",
		"aaccc": "offset 3 is not visible",
	} {
		err := verify(ctx, c.ListenAddrs(), "t", [][]Record{history(picture)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", picture, err, want)
		}
	}
}
