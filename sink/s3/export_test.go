package s3

import (
	"time"

	"github.com/flinksink/flinksink/sink"
)

// Lower lowers S3's limits, which no test wants to fill.
func (s *Sink) Lower(partSize, maxParts int, copyLimit, copyPart int64, maxInline int) *Sink {
	if partSize > 0 {
		s.o.PartSize, s.minPart = partSize, 1
	}
	if maxParts > 0 {
		s.maxParts = maxParts
	}
	if copyLimit > 0 {
		s.copyLimit, s.copyPart = copyLimit, copyPart
	}
	if maxInline > 0 {
		s.maxInline = maxInline
	}
	return s
}

// Files returns how many files a receipt names, and the key and the upload of the first.
func Files(d sink.Committable) (n int, key, upload string, err error) {
	r, err := parseReceipt(d.Version, d.Data)
	if err != nil || len(r.Files) == 0 {
		return 0, "", "", err
	}
	return len(r.Files), r.Files[0].Key, r.Files[0].Upload, nil
}

// Patience sets how long an upload of which no object comes is left alone.
func (s *Sink) Patience(d time.Duration) *Sink {
	s.stranded.wait = func(int64) time.Duration { return d }
	return s
}
