package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// cluster is a Flink cluster that flink/cluster started.
type cluster struct {
	address string
	pid     int // of the process that works
}

var clusterScript = filepath.Join("flink", "cluster")

func (s *servers) startFlink(ctx context.Context) error {
	out, err := script(ctx, clusterScript, "up")
	if err != nil {
		return err
	}
	f := strings.Fields(lastLine(out))
	if len(f) != 2 {
		return fmt.Errorf("flink/cluster said %q", lastLine(out))
	}
	pid, err := strconv.Atoi(f[1])
	s.flink = &cluster{f[0], pid}
	return err
}

func (s *servers) stopFlink() {
	if s.flink == nil {
		return
	}
	if _, err := script(context.Background(), clusterScript, "down"); err != nil {
		fmt.Fprintln(os.Stderr, "peers: Flink is left running:", err)
	}
	s.flink = nil
}

// jobText is a template of what the SQL client gets.
var jobText = filepath.Join("flink", "job.sql.tmpl")

// flinkJob is a job of the cluster.
type flinkJob struct {
	c      *cluster
	id     string
	before time.Duration // CPU
	ended  chan error
	quit   context.CancelFunc
}

var jobID = regexp.MustCompile(`Job ID: *([0-9a-f]{32})`)

// submit hands the job to the cluster. It goes on until it is cancelled.
func (s *servers) submit(ctx context.Context, t task, _ *job) (running, error) {
	tm, err := template.ParseFiles(jobText)
	if err != nil {
		return nil, err
	}
	var sql strings.Builder
	if err := tm.Execute(&sql, map[string]string{"Columns": shape.Flink(), "Topic": t.Topic, "Broker": t.Broker, "Group": t.Group, "Table": t.Table,
		"Host": hostOf(s.conn), "Database": s.prefix, "User": s.conn.User, "Password": s.conn.Password}); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "job-*.sql")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(sql.String())
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	before := cpuOf(s.flink.pid)
	out, err := script(ctx, clusterScript, "sql", f.Name())
	if err != nil {
		return nil, err
	}
	m := jobID.FindStringSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("the SQL client told no job:\n%s", tail(out, 10))
	}
	watched, quit := context.WithCancel(ctx)
	j := &flinkJob{s.flink, m[1], before, make(chan error, 1), quit}
	go j.watch(watched)
	return j, nil
}

func (j *flinkJob) over() <-chan error { return j.ended }

// state asks the cluster what becomes of the job.
func (j *flinkJob) state(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+j.c.address+"/jobs/"+j.id, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var v struct {
		State string `json:"state"`
	}
	err = json.NewDecoder(resp.Body).Decode(&v)
	return v.State, err
}

func (j *flinkJob) watch(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if state, err := j.state(ctx); err == nil && (state == "FAILED" || state == "FAILING") {
			j.ended <- errors.New("the job is " + state + ": the TaskManager's log has the reason")
			return
		}
	}
}

func (j *flinkJob) stop() time.Duration {
	j.quit()
	used := cpuOf(j.c.pid) - j.before
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, "http://"+j.c.address+"/jobs/"+j.id+"?mode=cancel", nil)
	if err == nil {
		var resp *http.Response
		if resp, err = http.DefaultClient.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}
	// The next contender must not meet it.
	for err == nil {
		var state string
		if state, err = j.state(ctx); state == "CANCELED" || state == "FAILED" || state == "FINISHED" {
			return used
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	fmt.Fprintln(os.Stderr, "peers: the job of Flink may still run:", err)
	return used
}
