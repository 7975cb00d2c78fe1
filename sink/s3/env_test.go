package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/changelog/format/csv"
	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// longVariable asks for tests that take minutes.
const longVariable = "FLINKSINK_LONG"

// Real S3 servers; their keys are testbed and testbed-secret. Tests that end in _Server want versitygw, those that end in _Moto want moto: one program's mistakes are not
// the other's.
const (
	serverVariable = "FLINKSINK_S3"
	motoVariable   = "FLINKSINK_MOTO"
)

// env is a bucket of a test's own on the fake server or on a real one.
type env struct {
	t      testing.TB
	fake   *s3test.Server // nil: a real one
	url    string
	bucket string
	tiny   bool          // the server takes parts of any size
	api    *awss3.Client // that the test itself uses
	prefix atomic.Int64
}

func newFake(t testing.TB) *env {
	t.Helper()
	s, err := s3test.Start("bucket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.MinPart = 1
	e := &env{t: t, fake: s, url: s.URL, bucket: "bucket", tiny: true}
	e.api = e.client(nil)
	return e
}

var buckets atomic.Int64

func newReal(t testing.TB) *env { return newNamed(t, serverVariable) }

func newMoto(t testing.TB) *env { return newNamed(t, motoVariable) }

func newNamed(t testing.TB, variable string) *env {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		t.Skipf("needs a real S3 server: set %s to its address, or run ./test full", variable)
	}
	return newRealAt(t, url)
}

// servers are all that there are, by name; the fake has parts of any size.
func servers() map[string]func(testing.TB) *env {
	return map[string]func(testing.TB) *env{"fake": newFake, "Server": newReal, "Moto": newMoto}
}

func newRealAt(t testing.TB, url string) *env {
	t.Helper()
	e := &env{t: t, url: url, bucket: fmt.Sprintf("s3sink-%d-%d", os.Getpid(), buckets.Add(1))}
	e.api = e.client(nil, func(o *awss3.Options) { o.Retryer = nil }) // the test itself wants to see its bucket, and not what a request can meet
	if _, err := e.api.CreateBucket(context.Background(), &awss3.CreateBucketInput{Bucket: &e.bucket}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.empty()
		e.api.DeleteBucket(context.Background(), &awss3.DeleteBucketInput{Bucket: &e.bucket})
	})
	return e
}

// connection is what dies with a process: its connections, and the requests on them.
type connection struct {
	*http.Transport
	ctx  context.Context
	stop context.CancelFunc
}

func newConnection() *connection {
	c := &connection{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

func (c *connection) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.ctx.Err() != nil {
		return nil, errors.New("the process has ended")
	}
	ctx, cancel := context.WithCancel(r.Context())
	undo := context.AfterFunc(c.ctx, cancel)
	resp, err := c.Transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		undo()
		cancel()
		return nil, err
	}
	resp.Body = &body{resp.Body, func() { undo(); cancel() }}
	return resp, nil
}

type body struct {
	io.ReadCloser
	done func()
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}

func (c *connection) release() {
	c.stop()
	c.CloseIdleConnections()
}

// client makes a client as a user would, with connections of its own if c is not nil.
func (e *env) client(c *connection, change ...func(*awss3.Options)) *awss3.Client {
	o := awss3.Options{Region: "us-east-1", BaseEndpoint: aws.String(e.url), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("testbed", "testbed-secret", "")}
	if c != nil {
		o.HTTPClient = &http.Client{Transport: c}
	}
	// Attempts are few and quick, so that a test sees what the sink does by itself.
	o.Retryer = aws.NopRetryer{}
	for _, f := range change {
		f(&o)
	}
	return awss3.New(o)
}

// empty removes all objects and uploads.
func (e *env) empty() {
	if e.fake != nil {
		e.fake.Empty(e.bucket)
		return
	}
	for _, id := range e.uploads() {
		e.api.AbortMultipartUpload(context.Background(), &awss3.AbortMultipartUploadInput{Bucket: &e.bucket, Key: aws.String(id[0]), UploadId: aws.String(id[1])})
	}
	var ids []types.ObjectIdentifier
	for _, k := range e.keys("") {
		ids = append(ids, types.ObjectIdentifier{Key: aws.String(k)})
	}
	for len(ids) > 0 {
		n := min(len(ids), 1000)
		if _, err := e.api.DeleteObjects(context.Background(), &awss3.DeleteObjectsInput{Bucket: &e.bucket, Delete: &types.Delete{Objects: ids[:n]}}); err != nil {
			e.t.Error(err)
			return
		}
		ids = ids[n:]
	}
}

func (e *env) keys(prefix string) (keys []string) {
	p := awss3.NewListObjectsV2Paginator(e.api, &awss3.ListObjectsV2Input{Bucket: &e.bucket, Prefix: &prefix})
	for p.HasMorePages() {
		out, err := p.NextPage(context.Background())
		if err != nil {
			e.t.Error(err)
			return nil
		}
		for _, o := range out.Contents {
			keys = append(keys, *o.Key)
		}
	}
	return keys
}

// dataKeys leaves out the sink's own.
func (e *env) dataKeys() (keys []string) {
	for _, k := range e.keys("") {
		if !strings.Contains(k, "_flinksink/") && !strings.Contains(k, "_staging/") {
			keys = append(keys, k)
		}
	}
	return keys
}

func (e *env) uploads() (ids [][2]string) {
	out, err := e.api.ListMultipartUploads(context.Background(), &awss3.ListMultipartUploadsInput{Bucket: &e.bucket})
	if err != nil {
		e.t.Error(err)
		return nil
	}
	for _, u := range out.Uploads {
		ids = append(ids, [2]string{*u.Key, *u.UploadId})
	}
	return ids
}

func (e *env) get(key string) []byte {
	out, err := e.api.GetObject(context.Background(), &awss3.GetObjectInput{Bucket: &e.bucket, Key: &key})
	if err != nil {
		e.t.Errorf("GetObject %s: %v", key, err)
		return nil
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		e.t.Error(err)
	}
	return b
}

func lines(b []byte) [][]byte {
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return nil
	}
	return bytes.Split(b, []byte("\n"))
}

func (e *env) remove(key string) {
	if _, err := e.api.DeleteObject(context.Background(), &awss3.DeleteObjectInput{Bucket: &e.bucket, Key: &key}); err != nil {
		e.t.Error(err)
	}
}

func (e *env) putObject(key, body, token string) {
	in := &awss3.PutObjectInput{Bucket: &e.bucket, Key: &key, Body: strings.NewReader(body)}
	if token != "" {
		in.Metadata = map[string]string{"flinksink-token": token}
	}
	if _, err := e.api.PutObject(context.Background(), in); err != nil {
		e.t.Error(err)
	}
}

func createInput(bucket, key string) *awss3.CreateMultipartUploadInput {
	return &awss3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key}
}

func firstKey(t testing.TB, d sink.Committable) string {
	t.Helper()
	_, key, _, err := s3.Files(d)
	if err != nil || key == "" {
		t.Fatalf("a receipt without a file: %v", err)
	}
	return key
}

// lineFormats are the formats of one row a line that take several columns.
func lineFormats() map[string]s3.Format {
	return map[string]s3.Format{"json": nil, "csv": s3.Lines(csv.Format{}, nil)}
}
