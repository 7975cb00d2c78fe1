package s3test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is an S3 server on a port of this host. Its fields are set before the first request.
type Server struct {
	// URL is the endpoint, with path-style addresses.
	URL string
	// MinPart is the least size of a part that is not the last. Defaults to S3's 5 MiB.
	MinPart int
	// Unconditional makes the server ignore If-Match and If-None-Match, as some do.
	Unconditional bool
	// NeedChecksum refuses bodies without a checksum header, as a bucket with Object Lock does.
	NeedChecksum bool
	// Clock tells what time it is for the server. nil: time.Now.
	Clock func() time.Time
	// Intercept is asked about every request and may spoil it. nil: nothing is spoilt.
	Intercept func(r Request) *Fault

	mu      sync.Mutex
	buckets map[string]*bucket
	log     []Request
	counts  map[string]int // of requests by Op
	uploads int
	http    *http.Server
}

// Request is one request, as Intercept and Requests tell of it.
type Request struct {
	Op     string // PutObject, UploadPart, ...
	Bucket string
	Key    string
	Header http.Header
	Size   int // of the body
	N      int // the number of this Op since the start, from 1
}

// Fault spoils a request. One with nothing but Do set spoils nothing: Do is called before or after the effect.
type Fault struct {
	After  bool   // the request is carried out first
	Status int    // of the answer; 0: the connection is cut
	Code   string // S3's error code in the answer's body
	// Do is called before the answer and after the effect of a fault that is After.
	Do func()
}

type bucket struct {
	objects   map[string]*object
	uploads   map[string]*upload
	lifecycle []byte // the configuration, as it was sent; nil: none
}

type object struct {
	body   []byte
	etag   string
	header http.Header // metadata, content type, encryption and storage class, as they were sent
	when   time.Time
}

type upload struct {
	id, key  string
	header   http.Header
	checksum string // the algorithm that was declared
	parts    map[int]*object
	hidden   bool // in listings
}

// Start starts a server with the buckets.
func Start(buckets ...string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String(), MinPart: 5 << 20, buckets: map[string]*bucket{}, counts: map[string]int{}}
	for _, b := range buckets {
		s.buckets[b] = &bucket{objects: map[string]*object{}, uploads: map[string]*upload{}}
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.http.Serve(l) // ends with Close
	return s, nil
}

func (s *Server) now() time.Time {
	if s.Clock != nil {
		return s.Clock().UTC()
	}
	return time.Now().UTC()
}

// Close ends the server and its connections.
func (s *Server) Close() error { return s.http.Close() }

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Empty removes all objects and uploads of a bucket and forgets the requests.
func (s *Server) Empty(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[name] = &bucket{objects: map[string]*object{}, uploads: map[string]*upload{}}
	s.log = nil
}

// AbortAll ends all uploads of a bucket, as a lifecycle rule does.
func (s *Server) AbortAll(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[name]; b != nil {
		clear(b.uploads)
	}
}

// Header returns what was sent with the object's content: metadata, encryption, storage class. nil: there is no such object.
func (s *Server) Header(name, key string) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[name]; b != nil && b.objects[key] != nil {
		return b.objects[key].header.Clone()
	}
	return nil
}

// call is a request with its body, and the answer to it.
type call struct {
	Request
	q      url.Values
	body   []byte
	bucket *bucket
	out    http.Header
	status int
	text   bytes.Buffer
}

func (c *call) has(name string) bool { return c.q.Has(name) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away: nothing was done
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		if body, err = unchunk(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c := &call{Request: Request{Bucket: name, Key: key, Header: r.Header.Clone(), Size: len(body)}, q: r.URL.Query(), body: body, out: http.Header{}, status: http.StatusOK}
	c.Op = c.op(r.Method)

	s.mu.Lock()
	s.counts[c.Op]++
	c.N = s.counts[c.Op]
	s.log = append(s.log, c.Request)
	s.mu.Unlock()
	var f *Fault
	if s.Intercept != nil {
		f = s.Intercept(c.Request)
	}
	if f == nil || f.After {
		s.mu.Lock()
		s.answer(c)
		s.mu.Unlock()
	}
	if f != nil {
		if f.Do != nil {
			f.Do()
		}
		switch {
		case f.Status == 0 && f.Code == "" && f.Do != nil: // it only wanted to know
			if !f.After {
				s.mu.Lock()
				s.answer(c)
				s.mu.Unlock()
			}
		case f.Status == 0:
			panic(http.ErrAbortHandler) // net/http cuts the connection then
		default:
			c.out, c.text = http.Header{}, bytes.Buffer{}
			c.fail(f.Status, f.Code)
		}
	}
	for k, v := range c.out {
		w.Header()[k] = v
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(c.status)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(c.text.Len()))
	w.WriteHeader(c.status)
	w.Write(c.text.Bytes())
}

func (c *call) op(method string) string {
	copied := c.Header.Get("X-Amz-Copy-Source") != ""
	switch {
	case c.Key == "" && method == http.MethodHead:
		return "HeadBucket"
	case c.Key == "" && c.has("lifecycle") && method == http.MethodGet:
		return "GetBucketLifecycleConfiguration"
	case c.Key == "" && c.has("lifecycle") && method == http.MethodPut:
		return "PutBucketLifecycleConfiguration"
	case c.Key == "" && method == http.MethodPut:
		return "CreateBucket"
	case c.Key == "" && method == http.MethodPost:
		return "DeleteObjects"
	case c.Key == "" && c.has("uploads"):
		return "ListMultipartUploads"
	case c.Key == "" && method == http.MethodGet:
		return "ListObjectsV2"
	case method == http.MethodPut && c.has("partNumber") && copied:
		return "UploadPartCopy"
	case method == http.MethodPut && c.has("partNumber"):
		return "UploadPart"
	case method == http.MethodPut && copied:
		return "CopyObject"
	case method == http.MethodPut:
		return "PutObject"
	case method == http.MethodPost && c.has("uploads"):
		return "CreateMultipartUpload"
	case method == http.MethodPost && c.has("uploadId"):
		return "CompleteMultipartUpload"
	case method == http.MethodDelete && c.has("uploadId"):
		return "AbortMultipartUpload"
	case method == http.MethodDelete:
		return "DeleteObject"
	case method == http.MethodHead:
		return "HeadObject"
	case method == http.MethodGet && c.has("uploadId"):
		return "ListParts"
	case method == http.MethodGet:
		return "GetObject"
	}
	return "unknown"
}

// fail answers with an error.
func (c *call) fail(status int, code string) {
	c.status = status
	c.xml(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: "a fake server answers " + code})
}

func (c *call) xml(v any) {
	c.out.Set("Content-Type", "application/xml")
	c.text.Reset()
	c.text.WriteString(xml.Header)
	if err := xml.NewEncoder(&c.text).Encode(v); err != nil {
		c.status = http.StatusInternalServerError
	}
}

// unchunk takes the framing of aws-chunked off a body.
func unchunk(b []byte) (out []byte, err error) {
	for {
		line, rest, ok := bytes.Cut(b, []byte("\r\n"))
		size, _, _ := strings.Cut(string(line), ";")
		n, perr := strconv.ParseUint(size, 16, 31)
		if !ok || perr != nil || int(n) > len(rest) {
			return nil, errors.New("a chunk of the body is broken")
		}
		if n == 0 {
			return out, nil
		}
		out, b = append(out, rest[:n]...), bytes.TrimPrefix(rest[n:], []byte("\r\n"))
	}
}
