package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// answer is the code of an error, or its status where there is no code, or "ok".
func answer(err error) string {
	var api smithy.APIError
	var status interface{ HTTPStatusCode() int }
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &api) && api.ErrorCode() != "" && api.ErrorCode() != "UnknownError":
		return api.ErrorCode()
	case errors.As(err, &status):
		return fmt.Sprint(status.HTTPStatusCode())
	}
	return "cut"
}

// caseRun is what a case has: calls on a bucket of its own.
type caseRun struct {
	e   *env
	ctx context.Context
}

func (r caseRun) put(key, body string, change ...func(*awss3.PutObjectInput)) (string, string) {
	in := &awss3.PutObjectInput{Bucket: &r.e.bucket, Key: &key, Body: strings.NewReader(body)}
	for _, f := range change {
		f(in)
	}
	out, err := r.e.api.PutObject(r.ctx, in)
	if err != nil {
		return "", answer(err)
	}
	return *out.ETag, "ok"
}

func (r caseRun) create(key string, change ...func(*awss3.CreateMultipartUploadInput)) string {
	in := &awss3.CreateMultipartUploadInput{Bucket: &r.e.bucket, Key: &key, Metadata: map[string]string{"flinksink-token": "mine"}}
	for _, f := range change {
		f(in)
	}
	out, err := r.e.api.CreateMultipartUpload(r.ctx, in)
	if err != nil {
		r.e.t.Fatal(err)
	}
	return *out.UploadId
}

func (r caseRun) part(key, id string, n int32, body []byte) (types.CompletedPart, string) {
	out, err := r.e.api.UploadPart(r.ctx, &awss3.UploadPartInput{Bucket: &r.e.bucket, Key: &key, UploadId: &id, PartNumber: &n, Body: bytes.NewReader(body)})
	if err != nil {
		return types.CompletedPart{}, answer(err)
	}
	return types.CompletedPart{ETag: out.ETag, PartNumber: &n}, "ok"
}

func (r caseRun) complete(key, id string, fresh bool, parts ...types.CompletedPart) string {
	in := &awss3.CompleteMultipartUploadInput{Bucket: &r.e.bucket, Key: &key, UploadId: &id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}
	if fresh {
		in.IfNoneMatch = aws.String("*")
	}
	_, err := r.e.api.CompleteMultipartUpload(r.ctx, in)
	return answer(err)
}

func (r caseRun) abort(key, id string) string {
	_, err := r.e.api.AbortMultipartUpload(r.ctx, &awss3.AbortMultipartUploadInput{Bucket: &r.e.bucket, Key: &key, UploadId: &id})
	return answer(err)
}

func (r caseRun) token(key string) string {
	out, err := r.e.api.HeadObject(r.ctx, &awss3.HeadObjectInput{Bucket: &r.e.bucket, Key: &key})
	if err != nil {
		return answer(err)
	}
	return out.Metadata["flinksink-token"]
}

func (r caseRun) copy(from, to string, change ...func(*awss3.CopyObjectInput)) string {
	in := &awss3.CopyObjectInput{Bucket: &r.e.bucket, Key: &to, CopySource: aws.String(r.e.bucket + "/" + from)}
	for _, f := range change {
		f(in)
	}
	_, err := r.e.api.CopyObject(r.ctx, in)
	return answer(err)
}

var big = bytes.Repeat([]byte("x"), 5<<20)

// cases are what the sink relies on, each with the answers that it can live with. A server may give any of them: "a|b". One list holds the fake to what real
// servers do.
var cases = []struct {
	name string
	run  func(r caseRun) string
	want string
	not  string // servers that are known to answer otherwise: moto
}{
	{"put If-None-Match on an existing key", func(r caseRun) string {
		r.put("k", "1")
		_, a := r.put("k", "2", func(in *awss3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
		return a
	}, "PreconditionFailed", ""},
	{"put If-None-Match on a new key", func(r caseRun) string {
		_, a := r.put("k", "2", func(in *awss3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
		return a
	}, "ok", ""},
	{"put If-Match of the right ETag", func(r caseRun) string {
		etag, _ := r.put("k", "1")
		_, a := r.put("k", "2", func(in *awss3.PutObjectInput) { in.IfMatch = &etag })
		return a
	}, "ok", ""},
	{"put If-Match of an old ETag", func(r caseRun) string {
		etag, _ := r.put("k", "1")
		r.put("k", "2")
		_, a := r.put("k", "3", func(in *awss3.PutObjectInput) { in.IfMatch = &etag })
		return a
	}, "PreconditionFailed", ""},
	{"put If-Match of an absent key", func(r caseRun) string {
		_, a := r.put("k", "3", func(in *awss3.PutObjectInput) { in.IfMatch = aws.String(`"00000000000000000000000000000000"`) })
		return a
	}, "NoSuchKey|PreconditionFailed", ""},
	{"metadata of an upload is the object's", func(r caseRun) string {
		id := r.create("k")
		p, _ := r.part("k", id, 1, []byte("small"))
		before := r.token("k")
		return before + " " + r.complete("k", id, true, p) + " " + r.token("k")
	}, "NotFound ok mine", ""},
	{"complete If-None-Match on an existing key keeps the upload", func(r caseRun) string {
		r.put("k", "1")
		id := r.create("k")
		p, _ := r.part("k", id, 1, []byte("small"))
		return r.complete("k", id, true, p) + " " + r.abort("k", id)
	}, "PreconditionFailed ok", ""},
	{"complete again: the object stays and is ours", func(r caseRun) string {
		id := r.create("k")
		p, _ := r.part("k", id, 1, []byte("small"))
		r.complete("k", id, true, p)
		r.complete("k", id, true, p) // any answer
		return r.token("k")
	}, "mine", ""},
	{"complete of an aborted upload, no such key", func(r caseRun) string {
		id := r.create("k")
		p, _ := r.part("k", id, 1, []byte("small"))
		r.abort("k", id)
		return r.complete("k", id, true, p) + " " + r.token("k")
	}, "NoSuchUpload NotFound", "moto"},
	{"complete of an aborted upload never brings the object", func(r caseRun) string {
		id := r.create("k")
		p, _ := r.part("k", id, 1, []byte("small"))
		r.abort("k", id)
		r.complete("k", id, true, p) // any answer
		_, err := r.e.api.ListParts(r.ctx, &awss3.ListPartsInput{Bucket: &r.e.bucket, Key: aws.String("k"), UploadId: &id})
		return answer(err) + " " + r.token("k")
	}, "NoSuchUpload NotFound", ""},
	{"complete of an aborted upload leaves another object alone", func(r caseRun) string {
		id := r.create("k")
		p, _ := r.part("k", id, 1, []byte("small"))
		r.abort("k", id)
		r.put("k", "another")
		r.complete("k", id, true, p) // any answer: one server says 200
		return "token " + r.token("k") + string(r.e.get("k"))
	}, "token another", ""},
	{"a part of an aborted upload", func(r caseRun) string {
		id := r.create("k")
		r.abort("k", id)
		_, a := r.part("k", id, 1, []byte("late"))
		return a
	}, "NoSuchUpload", "moto"},
	{"abort twice", func(r caseRun) string {
		id := r.create("k")
		return r.abort("k", id) + " " + r.abort("k", id)
	}, "ok NoSuchUpload|ok ok", ""},
	{"a small part that is not the last", func(r caseRun) string {
		id := r.create("k")
		a, _ := r.part("k", id, 1, []byte("small"))
		b, _ := r.part("k", id, 2, []byte("small"))
		return r.complete("k", id, true, a, b)
	}, "EntityTooSmall", ""},
	{"two parts", func(r caseRun) string {
		id := r.create("k")
		a, _ := r.part("k", id, 1, big)
		b, _ := r.part("k", id, 2, []byte("small"))
		return r.complete("k", id, true, a, b) + fmt.Sprint(" ", len(r.e.get("k")))
	}, "ok 5242885", ""},
	{"parts out of order", func(r caseRun) string {
		id := r.create("k")
		a, _ := r.part("k", id, 1, big)
		b, _ := r.part("k", id, 2, big)
		return r.complete("k", id, true, b, a)
	}, "InvalidPartOrder", "moto"},
	{"a part with another ETag", func(r caseRun) string {
		id := r.create("k")
		a, _ := r.part("k", id, 1, []byte("small"))
		a.ETag = aws.String(`"00000000000000000000000000000000"`)
		return r.complete("k", id, true, a)
	}, "InvalidPart", ""},
	{"no parts", func(r caseRun) string { return r.complete("k", r.create("k"), true) }, "MalformedXML", ""},
	{"checksums: declared and given", func(r caseRun) string {
		id := r.create("k", func(in *awss3.CreateMultipartUploadInput) { in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32 })
		sum := aws.String("dUXqEw==") // of "small"
		out, err := r.e.api.UploadPart(r.ctx, &awss3.UploadPartInput{Bucket: &r.e.bucket, Key: aws.String("k"), UploadId: &id, PartNumber: aws.Int32(1), Body: strings.NewReader("small"), ChecksumCRC32: sum})
		if err != nil {
			return answer(err)
		}
		return r.complete("k", id, true, types.CompletedPart{ETag: out.ETag, PartNumber: aws.Int32(1), ChecksumCRC32: out.ChecksumCRC32})
	}, "ok", ""},
	{"checksums: declared and left out", func(r caseRun) string {
		id := r.create("k", func(in *awss3.CreateMultipartUploadInput) { in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32 })
		out, err := r.e.api.UploadPart(r.ctx, &awss3.UploadPartInput{Bucket: &r.e.bucket, Key: aws.String("k"), UploadId: &id, PartNumber: aws.Int32(1), Body: strings.NewReader("small"), ChecksumCRC32: aws.String("dUXqEw==")})
		if err != nil {
			return answer(err)
		}
		return r.complete("k", id, true, types.CompletedPart{ETag: out.ETag, PartNumber: aws.Int32(1)})
	}, "InvalidRequest", "moto"},
	{"checksums: a wrong one", func(r caseRun) string {
		_, a := r.put("k", "small", func(in *awss3.PutObjectInput) { in.ChecksumCRC32 = aws.String("AAAAAA==") })
		return a
	}, "BadDigest", "moto"},
	{"copy keeps the metadata", func(r caseRun) string {
		r.put("a", "1", func(in *awss3.PutObjectInput) { in.Metadata = map[string]string{"flinksink-token": "mine"} })
		return r.copy("a", "b") + " " + r.token("b")
	}, "ok mine", ""},
	{"copy of what is gone", func(r caseRun) string { return r.copy("a", "b") + " " + r.token("b") }, "NoSuchKey NotFound", ""},
	{"copy If-Match of another ETag", func(r caseRun) string {
		r.put("a", "1")
		return r.copy("a", "b", func(in *awss3.CopyObjectInput) {
			in.CopySourceIfMatch = aws.String(`"00000000000000000000000000000000"`)
		})
	}, "PreconditionFailed", "moto"},
	{"copy of a part", func(r caseRun) string {
		r.put("a", string(big)+"tail")
		id := r.create("b")
		var parts []types.CompletedPart
		for i, rng := range []string{"bytes=0-5242879", "bytes=5242880-5242883"} {
			out, err := r.e.api.UploadPartCopy(r.ctx, &awss3.UploadPartCopyInput{Bucket: &r.e.bucket, Key: aws.String("b"), UploadId: &id, PartNumber: aws.Int32(int32(i + 1)), CopySource: aws.String(r.e.bucket + "/a"), CopySourceRange: &rng})
			if err != nil {
				return answer(err)
			}
			parts = append(parts, types.CompletedPart{ETag: out.CopyPartResult.ETag, PartNumber: aws.Int32(int32(i + 1))})
		}
		return r.complete("b", id, true, parts...) + fmt.Sprint(" ", len(r.e.get("b")))
	}, "ok 5242884", ""},
	{"delete of what is not there", func(r caseRun) string {
		_, err := r.e.api.DeleteObject(r.ctx, &awss3.DeleteObjectInput{Bucket: &r.e.bucket, Key: aws.String("k")})
		return answer(err)
	}, "ok", ""},
	{"listings by prefix, in pages", func(r caseRun) string {
		for _, k := range []string{"p/a", "p/b", "p/c/d", "q"} {
			r.put(k, "1")
		}
		var keys []string
		p := awss3.NewListObjectsV2Paginator(r.e.api, &awss3.ListObjectsV2Input{Bucket: &r.e.bucket, Prefix: aws.String("p/"), StartAfter: aws.String("p/a"), MaxKeys: aws.Int32(1)})
		for p.HasMorePages() {
			out, err := p.NextPage(r.ctx)
			if err != nil {
				return answer(err)
			}
			for _, o := range out.Contents {
				keys = append(keys, *o.Key)
			}
		}
		return strings.Join(keys, " ")
	}, "p/b p/c/d", ""},
	{"uploads by prefix, paged by key", func(r caseRun) string {
		for _, k := range []string{"p/a", "p/b", "p/c", "q"} {
			r.create(k)
		}
		var keys []string
		in := &awss3.ListMultipartUploadsInput{Bucket: &r.e.bucket, Prefix: aws.String("p/"), MaxUploads: aws.Int32(2)}
		for {
			out, err := r.e.api.ListMultipartUploads(r.ctx, in)
			if err != nil {
				return answer(err)
			}
			for _, u := range out.Uploads {
				keys = append(keys, *u.Key)
			}
			if !aws.ToBool(out.IsTruncated) {
				sort.Strings(keys)
				return strings.Join(keys, " ")
			}
			in.KeyMarker = out.Uploads[len(out.Uploads)-1].Key
		}
	}, "p/a p/b p/c", ""},
	{"a bucket that is not there", func(r caseRun) string {
		_, err := r.e.api.HeadBucket(r.ctx, &awss3.HeadBucketInput{Bucket: aws.String("no-such-bucket-here")})
		return answer(err)
	}, "NotFound", ""},
}

func runCases(t *testing.T, e *env, server string) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if server != "" && c.not == server {
				t.Skipf("%s is known to answer otherwise", server)
			}
			e.empty()
			got := c.run(caseRun{e, t.Context()})
			for _, want := range strings.Split(c.want, "|") {
				if got == want {
					return
				}
			}
			t.Errorf("answered %q, expected %q", got, c.want)
		})
	}
}

// The fake answers as the real servers do.
func TestCases_Fake(t *testing.T) {
	e := newFake(t)
	e.fake.MinPart = 5 << 20
	runCases(t, e, "")
}

func TestCases_Server(t *testing.T) { runCases(t, newReal(t), "") }

// A second opinion.
func TestCases_Moto(t *testing.T) {
	runCases(t, newMoto(t), "moto")
}
