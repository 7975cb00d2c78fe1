package s3_test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// A server that was killed in a completion and answers 200 to it ever after is not believed: while the completion may be under way for another process, nobody knows, and the
// error says what to look at. Later the upload is completed by the name that the server left it under, and nothing is lost. Where somebody deletes it instead, the loss is told
// with its offsets.
func TestCommit_ServerDiedInCompletion(t *testing.T) {
	for _, manifest := range []bool{false, true} {
		e := newFake(t)
		s := e.sink(&s3.Options{Manifest: manifest}).Lower(30, 0, 0, 0, 0).Patience(time.Hour)
		w := e.writer(s, events(t))
		prepared := func() sink.Committable {
			w.must(w.rows(5)) // some parts
			d, err := w.prepare()
			w.must(err)
			w.must(w.save(d))
			e.fake.Strand(e.bucket)
			return d
		}
		d := prepared()
		for range 3 {
			is(t, w.c.Commit(t.Context(), d), sink.ErrUncertain, "answered with 200", ".sgwtmp/multipart", "Options.Mode Rename")
		}
		e.holds(0, "while a completion may be under way")
		s.Patience(0)
		w.must(w.c.Commit(t.Context(), d))
		e.holds(5, "after the upload was completed by the server's own name for it")
		w.must(w.c.Commit(t.Context(), d))
		e.holds(5, "after a repeat")

		s.Patience(time.Hour)
		d = prepared()
		is(t, w.c.Commit(t.Context(), d), sink.ErrUncertain)
		e.fake.AbortAll(e.bucket)
		is(t, w.c.Commit(t.Context(), d), sink.ErrLost, "topic/0@5", "topic/0@10")
		e.holds(5, "after the server's leftover was deleted")
	}
}

// The same with the answers of the real server, whose folder is made what a kill leaves of it: see TestServerKilled for kills.
func TestServerDiedInCompletion(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skipf("starts a server of its own: set %s=1, or run ./test full", longVariable)
	}
	url := testbed(t, "s3-up")
	t.Cleanup(func() { testbed(t, "s3-down", "--wipe") })
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	e := newRealAt(t, url)
	s := e.sink(nil).Patience(time.Hour)
	w := e.writer(s, events(t))
	w.must(w.rows(3))
	d, err := w.prepare()
	w.must(err)
	w.must(w.save(d))
	_, key, upload, err := s3.Files(d)
	w.must(err)
	parts, err := e.api.ListParts(t.Context(), &awss3.ListPartsInput{Bucket: &e.bucket, Key: &key, UploadId: &upload})
	w.must(err)
	var etags []string
	for _, p := range parts.Parts {
		etags = append(etags, *p.ETag)
	}
	// Metadata is in attributes of the files, or in a folder of its own on a file system that has none.
	var folder string
	for _, of := range []string{"attributes", "data"} {
		folder = filepath.Join(cache, "flinksink", "s3", outagePort, of, e.bucket, ".sgwtmp", "multipart", fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
		err = os.Rename(filepath.Join(folder, upload), filepath.Join(folder, upload+"."+multipartETag(t, etags)+".inprogress"))
		if of == "data" || !errors.Is(err, fs.ErrNotExist) {
			w.must(err)
		}
	}
	is(t, w.c.Commit(t.Context(), d), sink.ErrUncertain, "answered with 200")
	if _, err := e.api.ListParts(t.Context(), &awss3.ListPartsInput{Bucket: &e.bucket, Key: &key, UploadId: &upload}); answer(err) != "NoSuchUpload" || len(e.uploads()) != 0 {
		t.Errorf("the server shows the upload: %v, %v", err, e.uploads())
	}
	s.Patience(0)
	w.must(w.c.Commit(t.Context(), d))
	e.holds(3, "after the upload was completed by the server's own name for it")
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) != 0 {
		t.Errorf("the server kept %s", strings.Join(left, ", "))
	}
}

// multipartETag is the name of a completion: the MD5 of the parts' MD5s, and their number.
func multipartETag(t *testing.T, parts []string) string {
	var sums []byte
	for _, p := range parts {
		sum, err := hex.DecodeString(strings.Trim(p, `"`))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum...)
	}
	return fmt.Sprintf("%x-%d", md5.Sum(sums), len(parts))
}
