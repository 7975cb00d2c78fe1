package s3_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// Kinds of buckets, and what goes with every request, as real servers have them: rows come over once in both modes, with a generation that dies in between, and the bucket is the
// store. A server that does not have a thing says so, and its case is skipped.
func TestBuckets(t *testing.T) {
	versioned := func(e *env) error {
		_, err := e.api.PutBucketVersioning(e.t.Context(), &awss3.PutBucketVersioningInput{Bucket: &e.bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
		return err
	}
	for name, c := range map[string]struct {
		settings s3.Settings
		client   func(*awss3.Options)
		make     func(e *env) error // nil: the bucket that the test has
		lock     bool
		want     func(e *env, key string, h *awss3.HeadObjectOutput) error
	}{
		"versioned": {make: versioned},
		"object lock": {lock: true, settings: s3.Settings{Checksum: s3.ChecksumCRC32}, make: func(e *env) error {
			_, err := e.api.PutObjectLockConfiguration(e.t.Context(), &awss3.PutObjectLockConfigurationInput{Bucket: &e.bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{
				ObjectLockEnabled: types.ObjectLockEnabledEnabled, Rule: &types.ObjectLockRule{DefaultRetention: &types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(1)}}}})
			return err
		}, want: func(e *env, key string, h *awss3.HeadObjectOutput) error {
			// Not every server tells of a lock that is the bucket's default, but all have to keep it.
			_, err := e.api.DeleteObject(e.t.Context(), &awss3.DeleteObjectInput{Bucket: &e.bucket, Key: &key, VersionId: h.VersionId})
			if h.VersionId == nil || err == nil {
				return fmt.Errorf("version %q can be deleted", aws.ToString(h.VersionId))
			}
			return nil
		}},
		"SSE-S3": {settings: s3.Settings{Encryption: types.ServerSideEncryptionAes256}, want: func(e *env, key string, h *awss3.HeadObjectOutput) error {
			if h.ServerSideEncryption != types.ServerSideEncryptionAes256 {
				return fmt.Errorf("its encryption is %q", h.ServerSideEncryption)
			}
			return nil
		}},
		"SSE-KMS": {settings: s3.Settings{Encryption: types.ServerSideEncryptionAwsKms, KMSKey: "arn:aws:kms:us-east-1:123456789012:key/1", BucketKey: true}, want: func(e *env, key string, h *awss3.HeadObjectOutput) error {
			if h.ServerSideEncryption != types.ServerSideEncryptionAwsKms || aws.ToString(h.SSEKMSKeyId) == "" {
				return fmt.Errorf("its encryption is %q with key %q", h.ServerSideEncryption, aws.ToString(h.SSEKMSKeyId))
			}
			return nil
		}},
		"requester pays":    {settings: s3.Settings{RequesterPays: true}},
		"tags and class":    {settings: s3.Settings{Tagging: "team=data", StorageClass: types.StorageClassStandardIa}},
		"CRC32 by the sink": {settings: s3.Settings{Checksum: s3.ChecksumCRC32}},
		"checksums by the client": {client: func(o *awss3.Options) {
			o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenSupported, aws.ResponseChecksumValidationWhenSupported
		}},
		"no checksums": {client: func(o *awss3.Options) {
			o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenRequired, aws.ResponseChecksumValidationWhenRequired
		}},
	} {
		for on, server := range servers() {
			if on == "fake" && c.make != nil || on == "fake" && c.want != nil {
				continue // it has no such things to show
			}
			t.Run(name+"/"+on, func(t *testing.T) {
				e := server(t)
				if c.lock {
					e = e.locked(t)
				}
				if c.make != nil {
					if err := c.make(e); err != nil {
						t.Skipf("the server has no such buckets: %v", err)
					}
				}
				if c.client != nil {
					e.api = e.client(nil, c.client)
				}
				n := int64(0)
				for _, mode := range []s3.Mode{s3.Multipart, s3.Rename} {
					if c.lock && on == "Moto" && mode == s3.Rename {
						continue // it asks for a checksum of a copy, which has no body
					}
					n = e.through(&s3.Options{Mode: mode, Manifest: true, MaxFileRows: 3, Settings: c.settings}, n, c.client)
				}
				if on == "fake" || c.want == nil || c.lock && on == "Moto" { // which takes the lock, and lets versions be deleted
					return
				}
				for _, k := range e.dataKeys() {
					h, err := e.api.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: &e.bucket, Key: &k})
					if err == nil {
						err = c.want(e, k, h)
					}
					if err != nil {
						if os.Getenv(serverVariable) == e.url && on == "Server" && !c.lock {
							t.Skipf("versitygw takes the headers, and keeps nothing of them: %v", err)
						}
						t.Errorf("%s: %v", k, err)
					}
				}
			})
		}
	}
}

// locked makes a bucket with Object Lock. What it holds stays for a day.
func (e *env) locked(t *testing.T) *env {
	l := &env{t: t, url: e.url, bucket: e.bucket + "-locked"}
	l.api = l.client(nil)
	if _, err := l.api.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &l.bucket, ObjectLockEnabledForBucket: aws.Bool(true)}); err != nil {
		t.Skipf("the server has no such buckets: %v", err)
	}
	return l
}

// through carries ten rows, a generation that dies with five of them prepared, and ten more. It returns how many rows there are now.
func (e *env) through(o *s3.Options, n int64, change func(*awss3.Options)) int64 {
	e.t.Helper()
	if change == nil {
		change = func(*awss3.Options) {}
	}
	begin := func() *writer {
		e.t.Helper()
		s := e.sink(o, change)
		c, err := s.Lane(e.t.Context(), sink.Lane{Bridge: "bridge", Sink: "lake", Tables: tables(events(e.t))})
		if err != nil {
			e.t.Fatal(err)
		}
		store, err := s3.NewStore(e.client(nil, change), e.bucket, "lake", o.Settings)
		if err != nil {
			e.t.Fatal(err)
		}
		w := &writer{t: e.t, ctx: e.t.Context(), s: s, c: c, store: store, table: events(e.t)}
		w.must(w.acquire())
		return w
	}
	w := begin()
	w.put(10)
	e.holds(n+10, "after a checkpoint")
	w.must(w.rows(5))
	if _, err := w.prepare(); err != nil {
		e.t.Fatal(err)
	}
	w = begin()
	e.holds(n+10, "after a generation that decided nothing more")
	e.clean("after a generation that decided nothing more")
	w.put(10)
	e.holds(n+20, "at the end")
	rows := int64(0)
	r, err := s3.NewReader(e.api, e.bucket, "lake", nil)
	w.must(err)
	for m, err := range r.Manifests(e.t.Context()) {
		w.must(err)
		for _, f := range m.Files {
			rows += f.Rows
		}
	}
	if rows != n+20 {
		e.t.Errorf("the manifests count %d rows, expected %d", rows, n+20)
	}
	return n + 20
}
