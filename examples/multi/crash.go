package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/sink"
)

// What a child is told. Not arguments: the connection string may hold a password, and arguments are for everybody to see.
const (
	brokerEnv = "FLINKSINK_MULTI_BROKER"
	dsnEnv    = "FLINKSINK_MULTI_DSN"
	searchEnv = "FLINKSINK_MULTI_SEARCH"
	lakeEnv   = "FLINKSINK_MULTI_LAKE"
	namesEnv  = "FLINKSINK_MULTI_NAMES" // of bucket, index and alias
	dieEnv    = "FLINKSINK_MULTI_DIE"   // the step at which it kills itself; "" for none
)

// death says when a process dies: at a step that its hooks tell, or when a request of its reaches a server.
type death struct {
	step  string // "prepared lake"
	op    string // of S3: "CompleteMultipartUpload"; of the index: "bulk"
	after bool   // when the request was carried out, else before
}

func (d death) String() string {
	switch {
	case d.step != "":
		return "at: " + d.step
	case d.after:
		return "once it was carried out: " + d.op
	}
	return "on its way: " + d.op
}

// deaths are all steps of a checkpoint, and requests of it.
func deaths() []death {
	var ds []death
	for _, s := range []string{"acquired", "opened postgres", "opened lake", "opened search", "begun", "prepared postgres", "prepared lake", "prepared search",
		"prepared", "saving", "saved", "committed lake", "committed"} {
		ds = append(ds, death{step: s})
	}
	for _, op := range []string{"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"} {
		ds = append(ds, death{op: op}, death{op: op, after: true})
	}
	return append(ds, death{op: "bulk"}, death{op: "bulk", after: true})
}

// child is the process that is killed.
func child(ctx context.Context) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent is gone
	}()
	pool, err := pgxpool.New(ctx, os.Getenv(dsnEnv))
	if err != nil {
		return err
	}
	defer pool.Close()
	address, err := url.Parse(os.Getenv(searchEnv))
	if err != nil {
		return err
	}
	search, err := elastictransport.New(elastictransport.Config{URLs: []*url.URL{address}})
	if err != nil {
		return err
	}
	die := os.Getenv(dieEnv)
	o := &bridge.Options{
		Interval:   20 * time.Millisecond,
		UntilEnd:   die == "",
		InstanceID: "multi", // the process that follows a killed one takes its place in the consumer group at once
		Hooks:      bridge.Hooks{Hooks: dieAt(die)},
	}
	return run(ctx, strings.Replace(createTable, "localhost:9092", os.Getenv(brokerEnv), 1),
		services{pool: pool, search: search, lake: lakeClient(os.Getenv(lakeEnv)), names: namesOf(os.Getenv(namesEnv))}, o)
}

func lakeClient(endpoint string) *s3.Client {
	return s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(
		cmp.Or(os.Getenv("AWS_ACCESS_KEY_ID"), "testbed"), cmp.Or(os.Getenv("AWS_SECRET_ACCESS_KEY"), "testbed-secret"), "")})
}

// namesOf reads what String of names wrote.
func namesOf(s string) names {
	f := strings.Split(s, " ")
	return names{f[0], f[1], f[2]}
}

func (n names) String() string { return n.bucket + " " + n.index + " " + n.alias }

// dieAt returns hooks that kill this process at a step: those of a checkpoint once it holds changes.
func dieAt(die string) sink.Hooks {
	holds := false
	at := func(step string, checkpoint bool) {
		if step == die && (holds || !checkpoint) {
			if p, err := os.FindProcess(os.Getpid()); err == nil {
				_ = p.Kill()
			}
			select {} // a kill may take a moment
		}
	}
	return sink.Hooks{
		Acquired: func(sink.Claim) { at("acquired", false) },
		Written:  func(string, int, int) { holds = true },
		Begun:    func(sink.Cut) { at("begun", true) },
		Prepared: func(sink.Cut) { at("prepared", true) },
		Saving:   func(sink.Cut) { at("saving", true) },
		Saved:    func(sink.Report) { at("saved", true) },
		Step: func(s sink.SinkStep) {
			switch s.Kind {
			case sink.SinkOpened:
				at("opened "+s.Sink, false)
			case sink.SinkPrepared:
				at("prepared "+s.Sink, true)
			case sink.SinkCommitted:
				at("committed "+s.Sink, true)
			}
		},
		Committed: func(sink.Report) { at("committed", true) },
	}
}

// life is one run of a child process: this program again.
type life struct {
	cmd  *exec.Cmd
	in   io.Closer // the child ends when this does, so that it cannot outlive us
	out  bytes.Buffer
	done chan struct{}
	err  error // how it ended; read after done
}

func (w *world) start(die string) (*life, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &life{cmd: exec.Command(self), done: make(chan struct{})}
	l.cmd.Env = append(os.Environ(), brokerEnv+"="+w.broker, dsnEnv+"="+w.dsn, searchEnv+"="+w.searchFront, lakeEnv+"="+w.lakeFront, namesEnv+"="+w.names.String(), dieEnv+"="+die)
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(l.done)
		l.err = l.cmd.Wait()
	}()
	return l, nil
}

// patience is how long a process may take.
const patience = 60 * time.Second

// end waits until the process is over, and says whether it was killed.
func (l *life) end(ctx context.Context) (killed bool, err error) {
	defer l.in.Close()
	select {
	case <-l.done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(patience):
		err = fmt.Errorf("the process is not over after %s", patience)
	}
	if err != nil {
		_ = l.cmd.Process.Kill()
		<-l.done
		return false, fmt.Errorf("%w; it said\n%s", err, l.out.Bytes())
	}
	var exit *exec.ExitError
	if errors.As(l.err, &exit) && exit.ExitCode() < 0 || exit != nil && l.out.Len() == 0 {
		return true, nil // by a signal; Windows has none, and no words
	}
	if l.err != nil {
		return false, fmt.Errorf("%w\n%s", l.err, l.out.Bytes())
	}
	return false, nil
}

// die runs a process until its death.
func (w *world) die(ctx context.Context, d death) error {
	die := d.step
	if die == "" {
		die = "by a request"
	}
	defer w.victim.Store(nil)
	v := &victim{death: d, born: make(chan *life, 1)}
	if d.op != "" {
		w.victim.Store(v)
	}
	l, err := w.start(die)
	if err != nil {
		return err
	}
	v.born <- l
	killed, err := l.end(ctx)
	if err == nil && !killed {
		err = errors.New("it ended by itself: " + l.out.String())
	}
	return err
}

// finish runs a process to the end of the topic.
func (w *world) finish(ctx context.Context) error {
	l, err := w.start("")
	if err != nil {
		return err
	}
	killed, err := l.end(ctx)
	if err == nil && killed {
		err = errors.New("it was killed")
	}
	return err
}
