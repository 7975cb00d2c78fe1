package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flinksink/flinksink/bridge/statuspage"
)

// The page tells what the bridge does, then why it halted, and the program ends when it is interrupted.
func TestRun(t *testing.T) {
	dsn := os.Getenv("FLINKSINK_POSTGRES")
	if dsn == "" {
		t.Skip("needs a Postgres: set FLINKSINK_POSTGRES to its connection string, or run ./test")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	// A database of its own: the program names its table and its bridge itself.
	admin, err := pgxpool.New(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprintf("example_status_%d", time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	defer admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
	conf := admin.Config()
	conf.ConnConfig.Database = name
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()

	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(key, value string) {
		t.Helper()
		if err := cl.ProduceSync(ctx, &kgo.Record{Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"id":1}`, `{"id":1,"customer":"annabel","total":10.5}`)

	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	interrupted, interrupt := context.WithCancel(ctx)
	defer interrupt()
	done := make(chan error, 1)
	go func() {
		done <- run(interrupted, strings.Replace(createTable, "localhost:9092", strings.Join(broker.ListenAddrs(), ","), 1), pool, l)
	}()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	until := func(what string, ok func(b statuspage.Bridge) bool) {
		t.Helper()
		for {
			_, body := get("/status.json")
			var r statuspage.Report
			if err := json.Unmarshal([]byte(body), &r); err != nil {
				t.Fatal(err)
			}
			if ok(r.Bridges[0]) {
				return
			}
			select {
			case err := <-done:
				t.Fatalf("the program ended: %v", err)
			case <-ctx.Done():
				t.Fatalf("waiting for %s: %s", what, body)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	until("a row", func(b statuspage.Bridge) bool { return b.Counters.Applied == 1 && b.Lag != nil && *b.Lag == 0 })
	if status, body := get("/healthz"); status != 200 {
		t.Errorf("healthz: %d %s", status, body)
	}
	if status, body := get("/"); status != 200 || !strings.Contains(body, "exactly once") || strings.Contains(body, "annabel") {
		t.Errorf("the page: %d %s", status, body)
	}
	put(`{"id":2}`, `{"id":2,"customer":"secret","total":"no number"}`)
	until("a halt", func(b statuspage.Bridge) bool { return b.State == statuspage.StateHalted })
	if status, body := get("/healthz"); status != 503 || !strings.Contains(body, "orders/0") || strings.Contains(body, "secret") || strings.Contains(body, "no number") {
		t.Errorf("healthz: %d %s", status, body)
	}
	interrupt()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "total") {
		t.Errorf("the program ended with %v", err)
	}
}
