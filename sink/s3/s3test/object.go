package s3test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// answer carries a request out, under the lock: so every condition and what follows from it are one step.
func (s *Server) answer(c *call) {
	c.bucket = s.buckets[c.Bucket]
	if c.Op == "CreateBucket" {
		if c.bucket == nil {
			s.buckets[c.Bucket] = &bucket{objects: map[string]*object{}, uploads: map[string]*upload{}}
		}
		return
	}
	if c.bucket == nil {
		c.fail(http.StatusNotFound, "NoSuchBucket")
		return
	}
	switch c.Op {
	case "HeadBucket":
	case "PutBucketLifecycleConfiguration": // kept and told, and not carried out
		c.bucket.lifecycle = c.body
	case "GetBucketLifecycleConfiguration":
		if c.bucket.lifecycle == nil {
			c.fail(http.StatusNotFound, "NoSuchLifecycleConfiguration")
			return
		}
		c.out.Set("Content-Type", "application/xml")
		c.text.Write(c.bucket.lifecycle)
	case "PutObject":
		s.put(c)
	case "CopyObject":
		s.copy(c)
	case "GetObject", "HeadObject":
		s.get(c)
	case "DeleteObject":
		delete(c.bucket.objects, c.Key)
		c.status = http.StatusNoContent
	case "DeleteObjects":
		s.deleteAll(c)
	case "ListObjectsV2":
		s.list(c)
	case "ListMultipartUploads":
		s.listUploads(c)
	case "CreateMultipartUpload":
		s.create(c)
	case "UploadPart", "UploadPartCopy":
		s.part(c)
	case "CompleteMultipartUpload":
		s.complete(c)
	case "AbortMultipartUpload":
		if _, ok := c.bucket.uploads[c.q.Get("uploadId")]; !ok {
			c.fail(http.StatusNotFound, "NoSuchUpload")
			return
		}
		delete(c.bucket.uploads, c.q.Get("uploadId"))
		c.status = http.StatusNoContent
	case "ListParts":
		s.listParts(c)
	default:
		c.fail(http.StatusNotImplemented, "NotImplemented")
	}
}

func etagOf(b []byte) string {
	sum := md5.Sum(b)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// kept are the headers that come back with an object.
func kept(h http.Header) http.Header {
	out := http.Header{}
	for k, v := range h {
		if strings.HasPrefix(k, "X-Amz-Meta-") || k == "Content-Type" || k == "X-Amz-Storage-Class" || k == "X-Amz-Tagging" || strings.HasPrefix(k, "X-Amz-Server-Side-Encryption") {
			out[k] = v
		}
	}
	return out
}

// condition checks If-Match and If-None-Match of a write, as AWS documents them.
func (s *Server) condition(c *call) bool {
	if s.Unconditional {
		return true
	}
	old := c.bucket.objects[c.Key]
	if c.Header.Get("If-None-Match") == "*" && old != nil {
		c.fail(http.StatusPreconditionFailed, "PreconditionFailed")
		return false
	}
	if m := c.Header.Get("If-Match"); m != "" {
		switch {
		case old == nil:
			c.fail(http.StatusNotFound, "NoSuchKey")
			return false
		case strings.Trim(m, `"`) != strings.Trim(old.etag, `"`):
			c.fail(http.StatusPreconditionFailed, "PreconditionFailed")
			return false
		}
	}
	return true
}

// sound compares a body with the checksum in its header.
func (s *Server) sound(c *call) bool {
	sent := c.Header.Get("X-Amz-Checksum-Crc32")
	if s.NeedChecksum && sent == "" && c.Header.Get("Content-Md5") == "" {
		c.status = http.StatusBadRequest
		c.xml(struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
			Message string
		}{Code: "InvalidRequest", Message: "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"})
		return false
	}
	if sent != "" && sent != crcOf(c.body) {
		c.fail(http.StatusBadRequest, "BadDigest")
		return false
	}
	return true
}

func crcOf(b []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)))
}

func (s *Server) put(c *call) {
	if !s.sound(c) || !s.condition(c) {
		return
	}
	o := &object{body: c.body, etag: etagOf(c.body), header: kept(c.Header), when: s.now()}
	c.bucket.objects[c.Key] = o
	c.out.Set("Etag", o.etag)
}

// source finds the object that a copy names.
func (s *Server) source(c *call) *object {
	name, err := url.PathUnescape(c.Header.Get("X-Amz-Copy-Source"))
	from, key, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	b := s.buckets[from]
	if err != nil || b == nil || b.objects[key] == nil {
		c.fail(http.StatusNotFound, "NoSuchKey")
		return nil
	}
	o := b.objects[key]
	if m := c.Header.Get("X-Amz-Copy-Source-If-Match"); m != "" && strings.Trim(m, `"`) != strings.Trim(o.etag, `"`) {
		c.fail(http.StatusPreconditionFailed, "PreconditionFailed")
		return nil
	}
	return o
}

func (s *Server) copy(c *call) {
	from := s.source(c)
	if from == nil || !s.condition(c) {
		return
	}
	o := &object{body: from.body, etag: etagOf(from.body), header: from.header, when: s.now()}
	if c.Header.Get("X-Amz-Metadata-Directive") == "REPLACE" {
		o.header = kept(c.Header)
	}
	c.bucket.objects[c.Key] = o
	c.xml(struct {
		XMLName      xml.Name `xml:"CopyObjectResult"`
		ETag         string
		LastModified string
	}{ETag: o.etag, LastModified: o.when.Format(time.RFC3339)})
}

func (s *Server) get(c *call) {
	o := c.bucket.objects[c.Key]
	if o == nil {
		c.fail(http.StatusNotFound, "NoSuchKey")
		return
	}
	for k, v := range o.header {
		c.out[k] = v
	}
	c.out.Set("Etag", o.etag)
	c.out.Set("Last-Modified", o.when.Format(http.TimeFormat))
	c.out.Set("Content-Length", strconv.Itoa(len(o.body)))
	body := o.body
	if r := c.Header.Get("Range"); r != "" {
		var err error
		if body, err = within(body, r); err != nil {
			c.fail(http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		c.status = http.StatusPartialContent
	}
	if c.Op == "GetObject" {
		c.text.Write(body)
	}
}

// within cuts "bytes=first-last" out of a body.
func within(body []byte, r string) ([]byte, error) {
	var first, last int
	if n, err := fmt.Sscanf(r, "bytes=%d-%d", &first, &last); n < 1 {
		return nil, err
	} else if n == 1 {
		last = len(body) - 1
	}
	last = min(last, len(body)-1)
	if first < 0 || first > last {
		return nil, fmt.Errorf("range %s of %d bytes", r, len(body))
	}
	return body[first : last+1], nil
}

func (s *Server) deleteAll(c *call) {
	var in struct {
		Object []struct{ Key string }
	}
	if err := xml.Unmarshal(c.body, &in); err != nil {
		c.fail(http.StatusBadRequest, "MalformedXML")
		return
	}
	type deleted struct{ Key string }
	out := struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []deleted
	}{}
	for _, o := range in.Object {
		delete(c.bucket.objects, o.Key)
		out.Deleted = append(out.Deleted, deleted{o.Key})
	}
	c.xml(out)
}
