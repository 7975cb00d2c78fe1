package s3_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// Credentials that expire in the middle of an upload, a clock that is off until NTP has set it, and a server that wants fewer requests: nothing is decided, the error is
// transient and says what it is, and with the same client the checkpoint is done anew, or its commit again, once the world is well.
func TestServerRefusesForAWhile(t *testing.T) {
	for _, c := range []struct {
		code   string
		status int
		say    string
	}{
		{"ExpiredToken", 400, "ExpiredToken"},
		{"TokenRefreshRequired", 400, "TokenRefreshRequired"},
		{"RequestExpired", 400, "RequestExpired"},
		{"RequestTimeTooSkewed", 403, "clock"},
		{"SlowDown", 503, "SlowDown"},
		{"ServiceUnavailable", 503, "ServiceUnavailable"},
	} {
		for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
			t.Run(fmt.Sprint(c.code, mode), func(t *testing.T) {
				e := newFake(t)
				var token atomic.Value
				token.Store("old")
				fresh := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "testbed", SecretAccessKey: "testbed-secret", SessionToken: token.Load().(string)}, nil
				})
				s := e.sink(&s3.Options{Mode: mode, Uploads: 1}, func(o *awss3.Options) { o.Credentials = fresh }).Lower(30, 0, 0, 0, 0)
				w := e.writer(s, events(t))
				var refused atomic.Int64
				expire := func(ops ...string) {
					token.Store("old")
					refused.Store(0)
					e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
						for _, op := range ops {
							if r.Op == op && (r.N > 1 || op == "GetObject") && r.Header.Get("X-Amz-Security-Token") == "old" {
								refused.Add(1)
								return &s3test.Fault{Status: c.status, Code: c.code}
							}
						}
						return nil
					}
				}
				expire("UploadPart")
				err := w.rows(20) // some parts, of which the first goes through
				if err == nil {
					_, err = w.prepare()
				}
				is(t, err, sink.ErrTransient, c.say)
				if refused.Load() == 0 {
					t.Error("nothing was refused")
				}
				token.Store("new")
				w.must(w.acquire())
				w.must(w.rows(20))
				d, err := w.prepare()
				w.must(err)
				w.must(w.save(d))
				w.must(w.c.Commit(t.Context(), d))
				w.must(w.rows(1))
				if d, err = w.prepare(); err != nil {
					t.Fatal(err)
				}
				w.must(w.save(d))
				expire("CompleteMultipartUpload", "CopyObject", "HeadObject", "GetObject")
				err = w.c.Commit(t.Context(), d)
				is(t, err, sink.ErrTransient)
				if c.status != 503 { // which a HEAD says by itself
					is(t, err, sink.ErrTransient, c.say)
				}
				e.fake.Intercept = nil
				e.holds(20, "while the server refuses")
				token.Store("new")
				w.must(w.c.Commit(t.Context(), d))
				e.holds(21, "in the end")
			})
		}
	}
}

// What a HEAD of the bucket does not say is asked for: a wrong key, a wrong region or a clock that is off is not taken for a bucket that is missing, or for a right.
func TestLane_WhatIsWrongWithTheBucket(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		class  error
		say    string
	}{
		{404, "NoSuchBucket", sink.ErrConfig, `there is no bucket "bucket"`},
		{404, "XAdminUserNotFound", sink.ErrConfig, "check that the endpoint is that of an S3 server, and the credentials: ListObjectsV2: XAdminUserNotFound (404)"},
		{404, "", sink.ErrConfig, "check that the endpoint is that of an S3 server"},
		{403, "AccessDenied", sink.ErrConfig, "s3:AbortMultipartUpload"},
		{403, "InvalidAccessKeyId", sink.ErrConfig, "ListObjectsV2: InvalidAccessKeyId (403): "},
		{403, "SignatureDoesNotMatch", sink.ErrConfig, "ListObjectsV2: SignatureDoesNotMatch (403): "},
		{403, "RequestTimeTooSkewed", sink.ErrTransient, "clock"},
		{400, "ExpiredToken", sink.ErrTransient, "ExpiredToken"},
		{301, "PermanentRedirect", sink.ErrConfig, "PermanentRedirect"},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			e := newFake(t)
			e.fake.Intercept = func(s3test.Request) *s3test.Fault { return &s3test.Fault{Status: c.status, Code: c.code} }
			_, err := e.sink(nil).Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(events(t))})
			is(t, err, c.class, c.say)
		})
	}
}

// A bucket that is not there, and a server that is none of S3's, as real ones answer.
func TestLane_WhatIsWrongWithTheBucket_Server(t *testing.T) {
	e := newReal(t)
	stranger := e.sink(nil, func(o *awss3.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("nobody", "nobody-secret", "")
	})
	_, err := stranger.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(events(t))})
	is(t, err, sink.ErrConfig, "the credentials")
	wrong := e.sink(nil, func(o *awss3.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("testbed", "nobody-secret", "")
	})
	_, err = wrong.Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(events(t))})
	is(t, err, sink.ErrConfig, "SignatureDoesNotMatch")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	_, err = e.sink(nil, func(o *awss3.Options) { o.BaseEndpoint = &other.URL }).Lane(t.Context(), sink.Lane{Bridge: "b", Sink: "s", Tables: tables(events(t))})
	is(t, err, sink.ErrConfig, "check that the endpoint")
}
