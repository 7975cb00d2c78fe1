package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/sink"
)

// bucket is the place that everything goes to, with the settings that every request needs.
type bucket struct {
	api      *s3.Client
	name     string
	settings Settings
}

func (b *bucket) payer() types.RequestPayer {
	if b.settings.RequesterPays {
		return types.RequestPayerRequester
	}
	return ""
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// stored is what is known of an object.
type stored struct {
	etag, token string
	size        int64
}

// tokenKey is the user metadata that tells whose an object is.
const tokenKey = "flinksink-token"

// head looks at an object. ok is false where there is none.
//
// The answer to a HEAD has no body, so 400 and 403 do not say whether credentials have expired, the clock is off, or the right is missing: a GET, which needs the same
// right, is asked for S3's code.
func (b *bucket) head(ctx context.Context, key string) (o stored, ok bool, err error) {
	out, err := b.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key, RequestPayer: b.payer()})
	if isNoKey(err) {
		return stored{}, false, nil
	}
	if err != nil {
		if status := statusOf(err); status == 400 || status == 403 {
			got, gerr := b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key, Range: aws.String("bytes=0-0"), RequestPayer: b.payer()})
			if gerr == nil {
				got.Body.Close()
			} else if classOfCode(codeOf(gerr)) != nil && !isNoKey(gerr) {
				err = gerr
			}
		}
		return stored{}, false, err
	}
	return stored{etag: aws.ToString(out.ETag), token: out.Metadata[tokenKey], size: aws.ToInt64(out.ContentLength)}, true, nil
}

// there asks whether the bucket is there and takes the credentials.
//
// As for head, the status alone does not say what is wrong: 404 is what one server answers to a key of nobody, and what is no S3 server at all answers too. So
// where it refuses, a listing is asked for S3's code.
func (b *bucket) there(ctx context.Context) error {
	_, err := b.api.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.name})
	status := statusOf(err)
	if err == nil || status != 301 && status != 400 && status != 403 && status != 404 {
		return err
	}
	_, lerr := b.api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name, MaxKeys: aws.Int32(1), RequestPayer: b.payer()})
	switch code := codeOf(lerr); {
	case code == "NoSuchBucket":
		return errorf(sink.ErrConfig, "there is no bucket %q: make it, or name another", b.name)
	case code == "AccessDenied", lerr == nil && status == 403:
		if lerr != nil {
			err = lerr
		}
		return errorf(sink.ErrConfig, "bucket %q refuses these credentials: they need s3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload: %w", b.name, tell(err))
	case lerr == nil:
		return err
	case classOfCode(code) != nil && !isNoKey(lerr): // of a bucket there is no such answer
		return lerr
	case statusOf(lerr) >= 300 && statusOf(lerr) < 500 && statusOf(lerr) != 429:
		return errorf(sink.ErrConfig, "bucket %q cannot be looked at: check that the endpoint is that of an S3 server, and the credentials: %w", b.name, tell(lerr))
	}
	return lerr
}

// condition is that of a conditional write.
type condition struct {
	absent bool   // If-None-Match: *
	etag   string // If-Match
}

// put writes a small object of the sink's own, and returns its ETag.
func (b *bucket) put(ctx context.Context, key string, body []byte, c condition, token string) (string, error) {
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), IfMatch: optional(c.etag), RequestPayer: b.payer()}
	if c.absent {
		in.IfNoneMatch = aws.String("*")
	}
	b.dress(in, token)
	out, err := b.api.PutObject(ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}

// dress puts the settings on a PutObject. crc goes into a header of its own, computed here: an SDK that is told to add none adds none.
func (b *bucket) dress(in *s3.PutObjectInput, token string) {
	s := b.settings
	if token != "" {
		in.Metadata = map[string]string{tokenKey: token}
	}
	in.StorageClass, in.ServerSideEncryption, in.SSEKMSKeyId = s.StorageClass, s.Encryption, optional(s.KMSKey)
	in.Tagging = optional(s.Tagging)
	if s.BucketKey {
		in.BucketKeyEnabled = aws.Bool(true)
	}
	if s.Checksum == ChecksumCRC32 {
		body, _ := in.Body.(*bytes.Reader)
		if sum, err := crcOf(body); err == nil {
			in.ChecksumAlgorithm, in.ChecksumCRC32 = types.ChecksumAlgorithmCrc32, &sum
		}
	}
}

// maxOwn bounds the objects of the sink's own that are read: stored states, receipts and manifests.
const maxOwn = 256 << 20

// get reads an object of the sink's own. ok is false where there is none.
func (b *bucket) get(ctx context.Context, key string) (body []byte, o stored, ok bool, err error) {
	out, err := b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key, RequestPayer: b.payer()})
	if isNoKey(err) {
		return nil, stored{}, false, nil
	}
	if err != nil {
		return nil, stored{}, false, err
	}
	defer out.Body.Close()
	body, err = io.ReadAll(io.LimitReader(out.Body, maxOwn+1))
	if err == nil && len(body) > maxOwn {
		err = errorf(sink.ErrConfig, "object %s is larger than %d MiB and not of this sink", brief(key), maxOwn>>20)
	}
	return body, stored{etag: aws.ToString(out.ETag), token: out.Metadata[tokenKey], size: int64(len(body))}, err == nil, err
}

// open opens an object for reading. ok is false where there is none.
func (b *bucket) open(ctx context.Context, key string) (body io.ReadCloser, ok bool, err error) {
	out, err := b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key, RequestPayer: b.payer()})
	if isNoKey(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return out.Body, true, nil
}

// remove deletes an object. One that is not there is fine.
func (b *bucket) remove(ctx context.Context, key string) error {
	_, err := b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key, RequestPayer: b.payer()})
	if isNoKey(err) {
		return nil
	}
	return err
}

// abort ends an upload and frees its parts. One that is gone is fine.
func (b *bucket) abort(ctx context.Context, key, id string) error {
	_, err := b.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: &id, RequestPayer: b.payer()})
	if isNoUpload(err) || isNoKey(err) {
		return nil
	}
	return err
}

// Bounds of listings, in pages of 1,000.
const maxPages = 1000

var errTooMany = errors.New("too many")

// list calls f for every key that begins with prefix, in order, within the bound: for what has to be looked at at each start.
func (b *bucket) list(ctx context.Context, prefix, after string, f func(key string) error) error {
	n := 0
	return b.listAll(ctx, prefix, after, func(key string, _ time.Time) error {
		if n++; n > maxPages*1000 {
			return fmt.Errorf("%w objects: more than %d thousand", errTooMany, maxPages)
		}
		return f(key)
	})
}

// listAll calls f for every key that begins with prefix, in order, with the time of its last write by the server's clock. Manifests and letters of years
// are many, so it has no bound; a server that does not get on with its pages is found out by the order.
func (b *bucket) listAll(ctx context.Context, prefix, after string, f func(key string, at time.Time) error) error {
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, StartAfter: optional(after), RequestPayer: b.payer()}
	last := after
	for {
		out, err := b.api.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		for _, o := range out.Contents {
			key := aws.ToString(o.Key)
			if key <= last {
				return errorf(sink.ErrConfig, "the server's listing is not in order, or begins again with its next page: this package needs ListObjectsV2 as S3 has it (directory buckets do not)")
			}
			last = key
			if err := f(key, aws.ToTime(o.LastModified)); err != nil {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextContinuationToken) == "" {
			return nil
		}
		if len(out.Contents) == 0 && aws.ToString(out.NextContinuationToken) == aws.ToString(in.ContinuationToken) {
			return errorf(sink.ErrConfig, "the server's listing does not end: it answers a page with the same page")
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

// listUploads calls f for uploads whose key begins with prefix. Pages are turned by the key alone: one server refuses both markers of its own answer. So
// of several uploads of one key those behind the end of a page are left out; a caller that ends what it is told of asks again until there is none.
func (b *bucket) listUploads(ctx context.Context, prefix string, f func(key, id string) error) error {
	in := &s3.ListMultipartUploadsInput{Bucket: &b.name, Prefix: &prefix, RequestPayer: b.payer()}
	for range maxPages {
		out, err := b.api.ListMultipartUploads(ctx, in)
		if err != nil {
			return err
		}
		last := ""
		for _, u := range out.Uploads {
			last = max(last, aws.ToString(u.Key))
			if err := f(aws.ToString(u.Key), aws.ToString(u.UploadId)); err != nil {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) || last == "" || last == aws.ToString(in.KeyMarker) {
			return nil
		}
		in.KeyMarker = &last
	}
	return fmt.Errorf("%w uploads: more than %d thousand", errTooMany, maxPages)
}
