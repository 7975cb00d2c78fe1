package s3

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/sink"
)

// Mode says how prepared rows wait for the decision.
type Mode uint8

const (
	// Multipart uploads parts under the final name, and completes the upload at Commit: nothing is copied. The bytes of an upload that is not
	// completed are stored, paid for and in no listing of objects.
	Multipart Mode = iota
	// Rename writes whole objects under _staging/ and copies them to their final names at Commit, within the server. For servers, or policies
	// of a bucket, that end uploads before a checkpoint is over. It stores each byte twice for a moment.
	Rename
)

// Kind says what a row of a file is.
type Kind uint8

const (
	// AppendOnly writes rows as they are, and takes tables that only insert. Any other table is refused before the first row.
	AppendOnly Kind = iota
	// Changelog writes every change as a row, with the columns _op (+I, -U, +U, -D), _topic, _partition, _offset and _index in front. Sorted by
	// partition, offset and index, the last change of a key wins. A delete may know its key only; the other columns are NULL then.
	Changelog
	// Upsert writes one row a key and file, with the same columns: the last change of it, +I or +U for a row that is there and -D for one
	// that is gone. A checkpoint whose rows exceed the lane's byte budget has several files, in which a key may come again: the greater offset wins.
	Upsert
)

// Compression of whole files.
type Compression uint8

const (
	Uncompressed Compression = iota
	Gzip
	Zstd
)

// Checksum says which checksum goes with each body, as a header.
type Checksum uint8

const (
	// ChecksumByClient leaves it to the client: s3.NewFromConfig adds a CRC32 to every body, s3.New adds none.
	ChecksumByClient Checksum = iota
	// ChecksumCRC32 declares CRC32 for every upload and sends it with every body, whatever the client is set to. Buckets with Object Lock ask for it.
	ChecksumCRC32
)

// Settings go with every object that is written.
type Settings struct {
	StorageClass  types.StorageClass         // "": the bucket's
	Encryption    types.ServerSideEncryption // "": the bucket's
	KMSKey        string                     // of Encryption aws:kms
	BucketKey     bool
	Tagging       string // "team=data&tier=raw"
	Checksum      Checksum
	RequesterPays bool
}

// Options are the settings of a [Sink]. nil and the zero value are the defaults.
type Options struct {
	// Mode defaults to Multipart. What another mode has prepared is committed all the same.
	Mode Mode
	// Kind defaults to AppendOnly.
	Kind Kind
	// Format is that of the files. Defaults to [JSONLines].
	Format Format
	// Compression is that of whole files; formats that compress their own blocks (Parquet, Avro) take none. Defaults to Uncompressed.
	Compression Compression
	// Level is the compression's own: 1 to 9 for Gzip, 1 to 22 for Zstd. Defaults to 6 and 3.
	Level int
	// PartitionBy makes folders such as country=DE/day=2026-11-30. Defaults to none.
	PartitionBy []PartitionField
	// PartSize is the size of a part, in bytes after compression: the memory of an open file. All parts but a file's last have it. S3 takes 5 MiB to 5 GiB,
	// and 10,000 parts a file.
	// Defaults to 8 MiB.
	PartSize int
	// MaxFileBytes ends a file at about this size, in bytes after compression. Defaults to 256 MiB.
	MaxFileBytes int64
	// MaxFileRows ends a file at this number of rows. Defaults to 0: no bound. A checkpoint ends every file.
	MaxFileRows int64
	// MaxOpenFiles is how many folders of PartitionBy are written at a time; the file that was written to longest ago is ended when another one is
	// needed. A lane's memory is PartSize times the sum of MaxOpenFiles and Uploads at most, and what the format holds, or lets go of at once: a row
	// group. Defaults to 16.
	MaxOpenFiles int
	// Uploads is how many requests of a lane are under way at a time. Defaults to 4.
	Uploads int
	// Manifest writes an object for each checkpoint that names all its files, after all of them are visible. [Reader] reads by it, so that it
	// sees all of a checkpoint or nothing. Defaults to false.
	Manifest bool
	// EventTime is a column of DATE, TIMESTAMP or TIMESTAMP_LTZ, that every table has. Its greatest value of each source partition goes into
	// the manifests, for [Success]. Needs Manifest. Defaults to none.
	EventTime string
	// Settings go with every object.
	Settings Settings
}

const (
	minPartSize       = 5 << 20
	maxParts          = 10_000
	defaultPartSize   = 8 << 20
	defaultFileBytes  = 256 << 20
	defaultOpenFiles  = 16
	defaultUploads    = 4
	defaultCopyLimit  = 5 << 30 // what CopyObject takes
	defaultCopyPart   = 512 << 20
	maxInlineReceipt  = 60 << 10 // the coordinator takes 64 KiB
	defaultGzipLevel  = 6
	defaultZstdLevel  = 3
	maxUploadsAtATime = 256
)

// New returns a sink that writes objects into a bucket, all of them below prefix, which may be "". The client is the user's: credentials, region,
// endpoint, path style and retries are its settings.
//
// All processes of a bridge name the same bucket and prefix. All mistakes are reported together, as one ErrConfig. The server is first asked by
// [Sink.Lane].
func New(client *s3.Client, bucketName, prefix string, o *Options) (*Sink, error) {
	s := &Sink{prefix: strings.Trim(prefix, "/"), minPart: minPartSize, maxParts: maxParts, copyLimit: defaultCopyLimit, copyPart: defaultCopyPart, maxInline: maxInlineReceipt}
	if o != nil {
		s.o = *o
		s.o.PartitionBy = append([]PartitionField(nil), o.PartitionBy...)
	}
	s.b = bucket{api: client, name: bucketName, settings: s.o.Settings}
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := place(client, bucketName, prefix); err != nil {
		errs = append(errs, err)
	}
	if s.o.Format == nil {
		s.o.Format = JSONLines()
	}
	if s.o.Mode > Rename {
		bad("Options.Mode is %d: it has to be Multipart or Rename", s.o.Mode)
	}
	if s.o.Kind > Upsert {
		bad("Options.Kind is %d: it has to be AppendOnly, Changelog or Upsert", s.o.Kind)
	}
	s.o.PartSize = orDefault(s.o.PartSize, defaultPartSize)
	if s.o.PartSize < minPartSize || int64(s.o.PartSize) > 5<<30 {
		bad("Options.PartSize is %d: S3 takes parts of 5 MiB to 5 GiB", s.o.PartSize)
	}
	s.o.MaxFileBytes = orDefault(s.o.MaxFileBytes, defaultFileBytes)
	s.o.MaxOpenFiles = orDefault(s.o.MaxOpenFiles, defaultOpenFiles)
	s.o.Uploads = orDefault(s.o.Uploads, defaultUploads)
	if s.o.MaxFileBytes < 0 || s.o.MaxFileRows < 0 || s.o.MaxOpenFiles < 0 || s.o.Uploads < 0 || s.o.Uploads > maxUploadsAtATime {
		bad("Options.MaxFileBytes, MaxFileRows, MaxOpenFiles and Uploads must not be negative, and Uploads not be above %d", maxUploadsAtATime)
	}
	if s.o.EventTime != "" && !s.o.Manifest {
		bad("Options.EventTime is set, and its times go into manifests: set Options.Manifest")
	}
	if s.o.Compression != Uncompressed && s.o.Format.Layout().Compressed {
		bad("Options.Compression is set, and files of this format compress their own blocks: leave it out, and set the format's own")
	}
	s.o.Level = level(s.o.Compression, s.o.Level, bad)
	if k := s.o.Settings.KMSKey; k != "" && s.o.Settings.Encryption != types.ServerSideEncryptionAwsKms && s.o.Settings.Encryption != types.ServerSideEncryptionAwsKmsDsse {
		bad("Settings.KMSKey is set, and Settings.Encryption is %q: set it to %q", s.o.Settings.Encryption, types.ServerSideEncryptionAwsKms)
	}
	for i, f := range s.o.PartitionBy {
		if err := f.check(); err != nil {
			bad("Options.PartitionBy[%d]: %w", i, err)
		}
	}
	if len(errs) > 0 {
		return nil, &sink.Error{Op: "new", Class: sink.ErrConfig, Err: errors.Join(errs...)}
	}
	return s, nil
}

// place checks what a sink, a store and a reader have in common.
func place(client *s3.Client, bucketName, prefix string) error {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("the client is nil: make one with s3.NewFromConfig of the AWS SDK"))
	}
	if bucketName == "" || strings.ContainsAny(bucketName, "/ ") {
		errs = append(errs, fmt.Errorf("%q is no name of a bucket", bucketName))
	}
	trimmed := strings.Trim(prefix, "/")
	for _, part := range strings.Split(trimmed, "/") {
		if trimmed != "" && (part == "" || part == "." || part == ".." || len(part) > 200) {
			errs = append(errs, fmt.Errorf("the prefix has a part that is empty, . or .., or longer than 200 bytes: use another"))
		}
	}
	if len(trimmed) > 400 {
		errs = append(errs, fmt.Errorf("the prefix has %d bytes: S3's keys have 1024 in all, so use 400 at most", len(trimmed)))
	}
	return errors.Join(errs...)
}

func orDefault[N int | int64 | time.Duration](n, byDefault N) N {
	if n == 0 {
		return byDefault
	}
	return n
}

func level(c Compression, n int, bad func(string, ...any)) int {
	switch {
	case c == Uncompressed && n != 0:
		bad("Options.Level is set without a Compression")
	case c == Gzip && (n < 0 || n > 9):
		bad("Options.Level is %d: Gzip knows 1 to 9", n)
	case c == Zstd && (n < 0 || n > 22):
		bad("Options.Level is %d: Zstd knows 1 to 22", n)
	case c > Zstd:
		bad("Options.Compression is %d: it has to be Uncompressed, Gzip or Zstd", c)
	case c == Gzip && n == 0:
		return defaultGzipLevel
	case c == Zstd && n == 0:
		return defaultZstdLevel
	}
	return n
}
