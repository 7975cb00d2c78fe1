package s3

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
)

// Commit completes the uploads, or copies the staged objects, and then writes the manifest. All files are tried, also when one fails.
//
// What a request is answered decides nothing: S3 answers the completion of an upload that was completed with 200 for a while and with 404 later, and
// some servers answer 200 to one that was aborted as long as the key exists. The object does: a name is written by one generation and one file
// alone, and the token in its metadata, which was set when the upload was begun, says that it is this file. The object's being there is the proof that
// the commit was done; its absence, once the server also says that upload or staged object are gone, is ErrLost.
func (c *committer) Commit(ctx context.Context, d sink.Committable) error {
	if d.Empty() {
		return nil
	}
	err := c.commit(ctx, d)
	if errors.Is(classify(err), sink.ErrLost) && err != nil {
		err = errorf(sink.ErrLost, "%w; the changes from %v up to %v, of generation %d, checkpoint %d. To read them again, set the positions back to there ('flinksink positions set --accept-lost' lets the receipt go)", err, d.From, d.To, d.Generation, d.Checkpoint)
	}
	return wrap(ctx, "commit", c.lane.Sink, c.lane.Bridge, classifyOrNil(err), err)
}

func classifyOrNil(err error) error {
	if err == nil {
		return nil
	}
	return classify(err)
}

func (c *committer) commit(ctx context.Context, d sink.Committable) error {
	r, b, err := c.load(ctx, d)
	if err != nil {
		return err
	}
	if r.Manifest != "" && r.Files[0].Staged != "" {
		// A staged object that outlived its Commit would be copied once more, after Compact has deleted the copy: the sweep takes it.
		if o, ok, err := b.head(ctx, r.Manifest); err == nil && ok && o.token == r.Token {
			return c.each(ctx, r.Files, func(f *fileReceipt) error { return b.remove(ctx, f.Staged) })
		}
	}
	err = c.each(ctx, r.Files, func(f *fileReceipt) error { return c.visible(ctx, b, f) })
	if err != nil {
		// Files of an old checkpoint may have been taken away since, by Compact or a retention of the lake: the manifest, which came after all of them,
		// still says that they were there.
		if r.Manifest != "" {
			if o, ok, merr := b.head(ctx, r.Manifest); merr == nil && ok && o.token == r.Token {
				return nil
			}
		}
		return err
	}
	if r.Manifest == "" {
		return nil
	}
	return c.manifest(ctx, b, r, d)
}

// each calls f for all files, as many at a time as the lane may, and returns the error that says most.
func (c *committer) each(ctx context.Context, files []fileReceipt, f func(*fileReceipt) error) error {
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(c.s.o.Uploads, len(files)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(&files[i])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, class := range []error{sink.ErrLost, sink.ErrConfig, sink.ErrFenced, nil} {
		for _, err := range errs {
			if err != nil && (class == nil || classify(err) == class) {
				return err
			}
		}
	}
	return nil
}

// visible makes one file visible.
func (c *committer) visible(ctx context.Context, b *bucket, f *fileReceipt) error {
	var err error
	var etag string
	if f.Upload != "" {
		etag, err = b.completeUpload(ctx, f.Key, f.Upload, f.Parts)
	} else {
		err = c.copy(ctx, b, f)
	}
	o, ok, herr := b.head(ctx, f.Key)
	switch {
	case herr != nil:
		return herr
	case ok && o.token == f.Token && o.size == f.Size:
		if f.Staged != "" {
			return b.remove(ctx, f.Staged)
		}
		return nil
	case ok:
		return errorf(sink.ErrConfig, "the object %s is there and is not what was prepared under this name: somebody else wrote it. Move it away, and the commit goes on", brief(f.Key))
	case isNoUpload(err), f.Staged != "" && isNoKey(err), codeOf(err) == "InvalidPart":
		return lost(f)
	case err == nil:
		return c.unseen(ctx, b, f, etag)
	case f.Upload != "" && statusOf(err) != 0:
		return c.stillThere(ctx, b, f, err)
	}
	return err
}

func lost(f *fileReceipt) error {
	what := "upload"
	if f.Staged != "" {
		what = "staged object"
	}
	return errorf(sink.ErrLost, "the %s of %s with %d rows is gone, and the object is not there: it was aborted, by a successor, by hand or by a lifecycle rule of the bucket", what, brief(f.Key), f.Rows)
}

// stillThere asks for the upload itself, as one server answers 500 to the completion of one that is gone. It looks at the object once more: another process
// may have completed the upload since the last look.
func (c *committer) stillThere(ctx context.Context, b *bucket, f *fileReceipt, err error) error {
	_, perr := b.api.ListParts(ctx, &s3.ListPartsInput{Bucket: &b.name, Key: &f.Key, UploadId: &f.Upload, MaxParts: aws.Int32(1), RequestPayer: b.payer()})
	if !isNoUpload(perr) {
		return err
	}
	o, ok, herr := b.head(ctx, f.Key)
	switch {
	case herr != nil:
		return herr
	case ok && o.token == f.Token && o.size == f.Size:
		return nil
	}
	return lost(f)
}

// copy copies a staged object to its name, with its metadata.
func (c *committer) copy(ctx context.Context, b *bucket, f *fileReceipt) error {
	source := b.name + "/" + escapePath(f.Staged)
	if f.Size > c.s.copyLimit {
		return c.copyParts(ctx, b, f, source)
	}
	s := b.settings
	in := &s3.CopyObjectInput{Bucket: &b.name, Key: &f.Key, CopySource: &source, CopySourceIfMatch: optional(f.ETag), IfNoneMatch: aws.String("*"), RequestPayer: b.payer(),
		StorageClass: s.StorageClass, ServerSideEncryption: s.Encryption, SSEKMSKeyId: optional(s.KMSKey)}
	if s.BucketKey {
		in.BucketKeyEnabled = aws.Bool(true)
	}
	_, err := b.api.CopyObject(ctx, in)
	if statusOf(err) == 501 { // see completeUpload
		in.IfNoneMatch = nil
		_, err = b.api.CopyObject(ctx, in)
	}
	return err
}

// copyParts copies what is too large for one copy, through an upload to the final name. An upload that is left behind has the generation in its name, and is
// swept like others; if that happens in the middle of this copy, then the successor that did it had committed this file before.
func (c *committer) copyParts(ctx context.Context, b *bucket, f *fileReceipt, source string) error {
	if _, ok, err := b.head(ctx, f.Staged); err != nil || !ok {
		if err == nil {
			err = lost(f)
		}
		if o, there, herr := b.head(ctx, f.Key); herr == nil && there && o.token == f.Token {
			return nil
		}
		return err
	}
	plain := *b
	plain.settings.Checksum = ChecksumByClient // the server computes what it needs: there is no body here
	id, err := plain.createUpload(ctx, f.Key, f.Token, f.ContentType)
	if err != nil {
		return err
	}
	each := max(c.s.copyPart, f.Size/int64(c.s.maxParts)+1)
	var parts []partReceipt
	for at := int64(0); at < f.Size; at += each {
		to := min(at+each, f.Size) - 1
		out, err := b.api.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: &b.name, Key: &f.Key, UploadId: &id, PartNumber: aws.Int32(int32(len(parts) + 1)), CopySource: &source,
			CopySourceIfMatch: optional(f.ETag), CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", at, to)), RequestPayer: b.payer()})
		if err != nil || out.CopyPartResult == nil {
			b.abortAnyway(ctx, f.Key, id)
			if err == nil {
				err = errors.New("a copy of a part was answered without a result")
			}
			return err
		}
		parts = append(parts, partReceipt{ETag: aws.ToString(out.CopyPartResult.ETag)})
	}
	_, err = b.completeUpload(ctx, f.Key, id, parts)
	if err != nil {
		b.abortAnyway(ctx, f.Key, id)
	}
	return err
}

// abortAnyway aborts also where the caller's context has ended.
func (b *bucket) abortAnyway(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	b.abort(ctx, key, id)
}

// escapePath escapes a key for a header, slashes left out.
func escapePath(key string) string {
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.ReplaceAll(strings.Join(parts, "/"), "+", "%2B")
}

// Abort frees what was prepared. Gone and never there are both fine.
func (c *committer) Abort(ctx context.Context, d sink.Committable) error {
	if d.Empty() {
		return nil
	}
	err := c.abort(ctx, d)
	return wrap(ctx, "abort", c.lane.Sink, c.lane.Bridge, classifyOrNil(err), err)
}

func (c *committer) abort(ctx context.Context, d sink.Committable) error {
	r, b, err := c.load(ctx, d)
	if r != nil && classify(err) == sink.ErrLost && err != nil {
		return nil // the receipt's object is gone: somebody aborted, or the sweep will
	}
	if err != nil {
		return err
	}
	err = c.each(ctx, r.Files, func(f *fileReceipt) error {
		if f.Staged != "" {
			return b.remove(ctx, f.Staged)
		}
		return b.abort(ctx, f.Key, f.Upload)
	})
	if err != nil {
		return err
	}
	// The receipt's object goes last: while it is there, Abort can be repeated.
	short, err := parseReceipt(d.Version, d.Data)
	if err != nil || short.Object == "" {
		return err
	}
	return b.remove(ctx, short.Object)
}
