//go:build unix

package elastic_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/elastic"
)

// node is an Elasticsearch of the test's own, which it may kill.
type node struct {
	t    *testing.T
	home string
	env  []string
	url  string
}

// newNode starts one; settings are those of elasticsearch.yml, each as name=value.
func newNode(t *testing.T, settings ...string) *node {
	if os.Getenv("FLINKSINK_LONG") == "" {
		t.Skip("FLINKSINK_LONG is not set: this test starts and kills an Elasticsearch of its own")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cache := t.TempDir()
	n := &node{t: t, home: filepath.Join(cache, "flinksink", "elastic"), env: append(os.Environ(), "XDG_CACHE_HOME="+cache, "FLINKSINK_ELASTIC_PORT="+strconv.Itoa(port),
		"FLINKSINK_ELASTIC_SETTINGS="+strings.Join(settings, " "))}
	// The jars of the node that runs for other tests.
	if err := os.MkdirAll(n.home, 0o755); err != nil {
		t.Fatal(err)
	}
	if theirs, err := os.UserCacheDir(); err == nil {
		if dist := filepath.Join(theirs, "flinksink", "elastic", "dist"); exists(dist) {
			if err := os.Symlink(dist, filepath.Join(n.home, "dist")); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(n.kill)
	n.up()
	return n
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (n *node) up() {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join("..", "..", "testbed", "elastic-up"))
	cmd.Env, cmd.Stderr = n.env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	n.url = lines[len(lines)-1]
}

// kill is kill -9.
func (n *node) kill() {
	text, err := os.ReadFile(filepath.Join(n.home, "pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
		for p.Signal(syscall.Signal(0)) == nil { // until it is gone, and its port free
			c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
			if err != nil {
				break
			}
			c.Close()
		}
	}
	_ = os.Remove(filepath.Join(n.home, "pid"))
}

// The server is killed between a delete and a write that is older. With Tombstone nothing comes back; with Hard a lane that was stopped for longer
// than its lease does not write at all, and what was under way is deleted again by the generation after.
func TestServerKilled(t *testing.T) {
	n := newNode(t)
	s := &server{t: t, url: n.url, real: true, prefix: "killed"}
	restart := func(flush bool, index string) {
		t.Helper()
		if flush {
			s.must("POST", "/"+index+"/_flush", "")
		}
		n.kill()
		n.up()
		waitReady(t, s, index)
	}
	for _, flush := range []bool{false, true} {
		gen := sink.GenerationID(1)
		if flush {
			gen = 11
		}
		name := "kept"
		if flush {
			name = "flushed"
		}
		tab := orders(t)
		tab.Name = name
		a := s.lane(tab, tombstones, nil)
		a.open(gen, 0, false)
		a.must(a.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b")))
		b := s.lane(tab, tombstones, nil)
		b.open(gen+1, 0, true)
		b.must(b.checkpoint(at(2, del, 1, "a")))
		restart(flush, a.index)
		a.must(a.checkpoint(at(0, ins, 1, "a"), at(1, ins, 2, "b"))) // it lives on, and reads again what it had read
		b.expect(map[string]string{"1": `{"flinksink_deleted":"T"}`, "2": `{"id":2,"v":"b"}`})
		b.must(b.checkpoint(at(3, ins, 1, "again")))
		b.expect(map[string]string{"1": `{"id":1,"v":"again"}`, "2": `{"id":2,"v":"b"}`})
	}
	tab := orders(t)
	tab.Name = "hard"
	a := s.lane(tab, hard, nil)
	a.open(21, 0, false)
	a.must(a.checkpoint(at(0, ins, 1, "a")))
	b := s.lane(tab, hard, nil)
	b.open(22, 0, true)
	b.must(b.checkpoint(at(2, del, 1, "a")))
	restart(true, a.index)
	elastic.AgeLease(a.c, elastic.LeaseOf(a.c))
	is(t, a.checkpoint(at(0, ins, 1, "a")), sink.ErrFenced, "generation 21 has ended")
	b.expect(map[string]string{})
	// What it had sent before, and something on the way held back, is written: the server has forgotten. A takeover ends that.
	s.must("POST", "/"+b.index+"/_bulk", `{"index":{"_id":"1","version":0,"version_type":"external_gte"}}`+"\n"+`{"id":1,"v":"a"}`+"\n")
	b.expect(map[string]string{"1": `{"id":1,"v":"a"}`})
	b.age(elastic.Reach)
	c := s.lane(tab, hard, nil)
	c.open(23, 0, true)
	c.expect(map[string]string{})
}
