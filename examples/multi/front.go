package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// victim is the process that a request is to kill, once.
type victim struct {
	death
	born chan *life // capacity 1: there is a victim before its process, which so cannot be quicker than that is known
	done atomic.Bool
}

func (v *victim) kill() {
	if v.done.CompareAndSwap(false, true) {
		l := <-v.born
		_ = l.cmd.Process.Kill()
		<-l.done
	}
}

// front is what processes reach a server through, so that it can kill who sent a request. The request is carried out either way: it was on its way.
func (w *world) front(server string, op func(*http.Request) string) (string, error) {
	to, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // S3 signs it
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // who asked is gone
	}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		v := w.victim.Load()
		if v == nil || v.op != op(r) || v.done.Load() {
			pass.ServeHTTP(rw, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !v.after {
			v.kill()
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(discard{make(http.Header)}, r)
		v.kill()
	}))
	w.closers = append(w.closers, s.Close)
	return s.URL, nil
}

// discard is an answer that nobody is there to read.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// lakeOp names a request to S3.
func lakeOp(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "CreateMultipartUpload"
	case r.Method == http.MethodPut && q.Has("partNumber"):
		return "UploadPart"
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return "CompleteMultipartUpload"
	}
	return ""
}

// searchOp names a request to Elasticsearch.
func searchOp(r *http.Request) string {
	if strings.HasSuffix(r.URL.Path, "/_bulk") {
		return "bulk"
	}
	return ""
}
