package s3_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
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
