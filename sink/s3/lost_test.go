package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// eater stands between a client and its server, and spoils one answer of the nth request of one kind after the server has carried it out.
type eater struct {
	*connection
	kind  func(*http.Request) bool
	spoil func(*http.Response) (*http.Response, error)

	mu    sync.Mutex
	left  int
	fired bool
}

func (e *eater) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := e.connection.RoundTrip(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || !e.kind(r) {
		return resp, err
	}
	if e.left--; e.left != 0 {
		return resp, nil
	}
	e.fired = true
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	resp.Body.Close()
	return e.spoil(resp)
}

// answeredWith makes another answer of one.
func answeredWith(status int, body string) func(*http.Response) (*http.Response, error) {
	return func(r *http.Response) (*http.Response, error) {
		r.StatusCode, r.Status = status, fmt.Sprint(status)
		r.Header = http.Header{"Content-Type": {"application/xml"}}
		r.ContentLength, r.Body = int64(len(body)), io.NopCloser(bytes.NewReader([]byte(body)))
		return r, nil
	}
}

// Answers are lost after the server has done what was asked, or say the opposite: of each kind of request that changes anything, on each server that there is, in both modes. A caller
// that does what a coordinator does brings each row over once, and nothing is left.
func TestLostAnswers(t *testing.T) {
	is := func(method string, parts ...string) func(*http.Request) bool {
		return func(r *http.Request) bool {
			url := r.URL.Path + "?" + r.URL.RawQuery
			for _, p := range parts {
				if strings.HasPrefix(p, "!") == strings.Contains(url, strings.TrimPrefix(p, "!")) {
					return false
				}
			}
			return r.Method == method
		}
	}
	copied := func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" }
	kinds := []struct {
		name string
		of   func(*http.Request) bool
		mode s3.Mode
	}{
		{"CreateMultipartUpload", is("POST", "uploads"), s3.Multipart},
		{"UploadPart", is("PUT", "partNumber="), s3.Multipart},
		{"CompleteMultipartUpload", is("POST", "uploadId="), s3.Multipart},
		{"AbortMultipartUpload", is("DELETE", "uploadId="), s3.Multipart},
		{"PutObject of a manifest", is("PUT", "/manifest/"), s3.Multipart},
		{"PutObject of a fence", is("PUT", "/fence/"), s3.Multipart},
		{"PutObject of a receipt", is("PUT", "/receipt/"), s3.Multipart},
		{"PutObject of the state", is("PUT", "/store.json"), s3.Multipart},
		{"PutObject of a staged object", is("PUT", "/_staging/", "!partNumber"), s3.Rename},
		{"CopyObject", copied, s3.Rename},
		{"DeleteObject", is("DELETE", "/_staging/"), s3.Rename},
	}
	spoils := map[string]func(*http.Response) (*http.Response, error){
		"cut":         func(*http.Response) (*http.Response, error) { return nil, errors.New("the connection was cut") },
		"500":         answeredWith(500, "<Error><Code>InternalError</Code></Error>"),
		"503":         answeredWith(503, "<Error><Code>SlowDown</Code></Error>"),
		"200 + error": answeredWith(200, "\n\n<Error><Code>InternalError</Code></Error>"),
	}
	for name, server := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := server(t)
			for _, k := range kinds {
				for what, spoil := range spoils {
					// What has no body in its answer cannot hold an error in it; 503 and 500 are the same to most.
					if what == "200 + error" && k.name != "CompleteMultipartUpload" && k.name != "CopyObject" || name != "fake" && what == "503" && os.Getenv(longVariable) == "" {
						continue
					}
					e.empty()
					lostAnswer(t, e, k.mode, fmt.Sprintf("%s, %s", k.name, what), &eater{connection: newConnection(), kind: k.of, spoil: spoil, left: 2})
				}
			}
		})
	}
}

func lostAnswer(t *testing.T, e *env, mode s3.Mode, what string, between *eater) {
	t.Helper()
	defer between.release()
	through := func(o *awss3.Options) { o.HTTPClient = &http.Client{Transport: between} }
	s := e.sink(&s3.Options{Mode: mode, Manifest: true, MaxFileRows: 2, Uploads: 1}, through)
	if strings.HasPrefix(what, "PutObject of a staged") {
		s.Lower(0, 0, 0, 0, 200) // which one that needs several parts is not put
	} else {
		lower(s, e)
	}
	c, err := s.Lane(t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: tables(events(t))})
	if err != nil {
		t.Fatal(err)
	}
	store, err := s3.NewStore(e.client(nil, through), e.bucket, "lake", s3.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, ctx: t.Context(), s: s, c: c, store: store, table: events(t)}
	retried := func(err error) bool {
		class := sink.ClassOf(err)
		if err != nil && class != sink.ErrTransient && class != sink.ErrUncertain {
			t.Fatalf("%s: %v", what, err)
		}
		return err != nil
	}
	for try := 0; w.from < 12; try++ {
		if try > 50 {
			t.Fatalf("%s: it makes no way", what)
		}
		if retried(w.acquire()) {
			continue
		}
		for w.from < 12 {
			if retried(w.rows(4)) {
				break
			}
			d, err := w.prepare()
			if retried(err) {
				break
			}
			if w.from == 8 && try == 0 { // one that is given up, so that something is aborted
				for n := 0; retried(w.c.Abort(w.ctx, d)); n++ {
					if n > 50 {
						t.Fatalf("%s: Abort makes no way", what)
					}
				}
				break
			}
			if retried(w.save(d)) {
				break
			}
			for n := 0; retried(w.c.Commit(w.ctx, d)); n++ {
				if n > 50 {
					t.Fatalf("%s: Commit makes no way", what)
				}
			}
		}
	}
	for n := 0; retried(w.acquire()); n++ {
		if n > 50 {
			t.Fatalf("%s: Open makes no way", what)
		}
	}
	if !between.fired {
		t.Errorf("%s: no answer was lost", what)
	}
	e.holds(12, what)
	e.clean(what)
}
