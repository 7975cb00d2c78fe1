package s3

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/flinksink/flinksink/sink"
)

// stranded remembers uploads whose completion was answered 200 and of which no object has come. A sink's committers share it: one whose Open fails is mostly
// followed by another one.
type stranded struct {
	mu    sync.Mutex
	since map[string]time.Time // by upload, of the first look
	wait  func(size int64) time.Duration
}

const (
	// A completion that is under way anywhere is over after this time, and a second for each 10 MB that the server may have to copy.
	completionTime = 2 * time.Minute
	copiedASecond  = 10e6
	maxStranded    = 10_000
)

// overdue remembers an upload, and reports that it was seen first so long ago that no completion of it can be under way any more.
func (s *stranded) overdue(upload string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.since[upload]
	if !ok {
		if s.since == nil || len(s.since) >= maxStranded {
			s.since = map[string]time.Time{}
		}
		first = time.Now()
		s.since[upload] = first
	}
	wait := completionTime + time.Duration(float64(size)/copiedASecond*float64(time.Second))
	if s.wait != nil {
		wait = s.wait(size)
	}
	return time.Since(first) >= wait
}

func (s *stranded) forget(upload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, upload)
}

// unseen is for a file whose commit was answered 200 and whose object is not there. It was done, and is gone again before the look; or the server is about to do it,
// for another process; or the server died while it did, as versitygw 1.8.0 can.
//
// For the time of a completion versitygw renames the upload ID to ID.ETAG.inprogress, answers 200 to other completions of ID, and shows neither in a listing. Killed
// in that time, it never looks at it again. The parts and the metadata are all there, and a completion of ID.ETAG.inprogress makes the object. Another server answers that it
// knows no such upload, and nothing is changed by having asked.
//
// To ask while a completion is under way would take its parts away, and the process that waits for it would believe them lost. So that time passes
// first. What proves the commit in the end is the object's token, as ever: until it is there, nobody knows, and nothing is lost by trying again.
func (c *committer) unseen(ctx context.Context, b *bucket, f *fileReceipt, etag string) error {
	if f.Upload != "" && etag != "" && c.s.stranded.overdue(f.Upload, f.Size) {
		if _, err := b.completeUpload(ctx, f.Key, f.Upload+"."+strings.Trim(etag, `"`)+".inprogress", f.Parts); err == nil {
			if o, ok, herr := b.head(ctx, f.Key); herr == nil && ok && o.token == f.Token && o.size == f.Size {
				c.s.stranded.forget(f.Upload)
				return nil
			}
		}
	}
	return errorf(sink.ErrUncertain, "the object %s is not there after its commit was answered with 200. That is right for as long as the server completes it for another process. If it stays so, "+
		"the server has lost the upload: look at its log; once the upload's folder is deleted there (versitygw: .sgwtmp/multipart), the next try says which offsets are lost. Options.Mode Rename does not have this", brief(f.Key))
}
