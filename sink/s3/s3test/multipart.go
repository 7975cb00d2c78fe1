package s3test

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) create(c *call) {
	s.uploads++
	u := &upload{id: fmt.Sprintf("upload-%d", s.uploads), key: c.Key, header: kept(c.Header), checksum: c.Header.Get("X-Amz-Checksum-Algorithm"), parts: map[int]*object{}}
	c.bucket.uploads[u.id] = u
	c.xml(struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket, Key, UploadId string
	}{Bucket: c.Bucket, Key: c.Key, UploadId: u.id})
}

// of returns the upload that a request names, or answers that there is none.
func (s *Server) of(c *call) *upload {
	u := c.bucket.uploads[c.q.Get("uploadId")]
	if u == nil || u.key != c.Key {
		c.fail(http.StatusNotFound, "NoSuchUpload")
		return nil
	}
	return u
}

func (s *Server) part(c *call) {
	u := s.of(c)
	if u == nil {
		return
	}
	n, err := strconv.Atoi(c.q.Get("partNumber"))
	if err != nil || n < 1 || n > 10_000 {
		c.fail(http.StatusBadRequest, "InvalidArgument")
		return
	}
	body := c.body
	if c.Op == "UploadPartCopy" {
		from := s.source(c)
		if from == nil {
			return
		}
		body = from.body
		if r := c.Header.Get("X-Amz-Copy-Source-Range"); r != "" {
			if body, err = within(body, r); err != nil {
				c.fail(http.StatusBadRequest, "InvalidArgument")
				return
			}
		}
	} else if !s.sound(c) {
		return
	}
	o := &object{body: body, etag: etagOf(body), when: s.now()}
	u.parts[n] = o
	if c.Op == "UploadPartCopy" {
		c.xml(struct {
			XMLName xml.Name `xml:"CopyPartResult"`
			ETag    string
		}{ETag: o.etag})
		return
	}
	c.out.Set("Etag", o.etag)
	if sum := c.Header.Get("X-Amz-Checksum-Crc32"); sum != "" {
		c.out.Set("X-Amz-Checksum-Crc32", sum)
	}
}

// Strand makes of all uploads of a bucket what versitygw 1.8.0 leaves of one when it is killed in its completion: the upload has a name of the server's
// own, ID.ETAG.inprogress, which no listing shows; a completion of ID is answered 200, and no object comes of it.
func (s *Server) Strand(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[name]
	if b == nil {
		return
	}
	for _, u := range slices.Collect(maps.Values(b.uploads)) {
		var etags []string
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			etags = append(etags, u.parts[n].etag)
		}
		delete(b.uploads, u.id)
		u.id, u.hidden = stranded(u.id, etags), true
		b.uploads[u.id] = u
	}
}

func stranded(id string, parts []string) string {
	return id + "." + strings.Trim(multipartETag(parts), `"`) + ".inprogress"
}

// multipartETag is the MD5 of the parts' MD5s, and their number.
func multipartETag(parts []string) string {
	var sums []byte
	for _, p := range parts {
		sum, _ := hex.DecodeString(strings.Trim(p, `"`)) // what is no MD5 is refused as a part
		sums = append(sums, sum...)
	}
	sum := md5.Sum(sums)
	return fmt.Sprintf(`"%s-%d"`, hex.EncodeToString(sum[:]), len(parts))
}

type completed struct {
	XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
	Bucket, Key, ETag string
}

// complete applies the rules in the order in which S3 does: the upload, the list, the parts, the condition.
func (s *Server) complete(c *call) {
	var in struct {
		Part []struct {
			PartNumber    int
			ETag          string
			ChecksumCRC32 string
		}
	}
	err := xml.Unmarshal(c.body, &in)
	var etags []string
	for _, p := range in.Part {
		etags = append(etags, p.ETag)
	}
	if c.bucket.uploads[stranded(c.q.Get("uploadId"), etags)] != nil {
		c.xml(completed{Bucket: c.Bucket, Key: c.Key, ETag: multipartETag(etags)})
		return
	}
	u := s.of(c)
	if u == nil {
		return
	}
	if err != nil || len(in.Part) == 0 {
		c.fail(http.StatusBadRequest, "MalformedXML")
		return
	}
	var body []byte
	last := 0
	for i, p := range in.Part {
		have := u.parts[p.PartNumber]
		switch {
		case p.PartNumber <= last:
			c.fail(http.StatusBadRequest, "InvalidPartOrder")
			return
		case have == nil || strings.Trim(have.etag, `"`) != strings.Trim(p.ETag, `"`):
			c.fail(http.StatusBadRequest, "InvalidPart")
			return
		case u.checksum == "" && p.ChecksumCRC32 != "":
			c.fail(http.StatusBadRequest, "InvalidPart")
			return
		case u.checksum == "CRC32" && p.ChecksumCRC32 == "":
			c.fail(http.StatusBadRequest, "InvalidRequest")
			return
		case u.checksum == "CRC32" && p.ChecksumCRC32 != crcOf(have.body):
			c.fail(http.StatusBadRequest, "InvalidPart")
			return
		case i < len(in.Part)-1 && len(have.body) < s.MinPart:
			c.fail(http.StatusBadRequest, "EntityTooSmall")
			return
		}
		last = p.PartNumber
		body = append(body, have.body...)
	}
	if !s.condition(c) {
		return
	}
	o := &object{body: body, etag: multipartETag(etags), header: u.header, when: s.now()}
	c.bucket.objects[c.Key] = o
	delete(c.bucket.uploads, u.id)
	c.xml(completed{Bucket: c.Bucket, Key: c.Key, ETag: o.etag})
}

func (s *Server) listParts(c *call) {
	u := s.of(c)
	if u == nil {
		return
	}
	type part struct {
		PartNumber int
		ETag       string
		Size       int
	}
	out := struct {
		XMLName       xml.Name `xml:"ListPartsResult"`
		Key, UploadId string
		IsTruncated   bool
		Part          []part
	}{Key: c.Key, UploadId: u.id}
	for _, n := range slices.Sorted(maps.Keys(u.parts)) {
		out.Part = append(out.Part, part{n, u.parts[n].etag, len(u.parts[n].body)})
	}
	c.xml(out)
}

// most reads the largest length of a page.
func (c *call) most(name string) int {
	if n, err := strconv.Atoi(c.q.Get(name)); err == nil && n > 0 && n < 1000 {
		return n
	}
	return 1000
}

func (s *Server) listUploads(c *call) {
	type up struct{ Key, UploadId string }
	out := struct {
		XMLName                           xml.Name `xml:"ListMultipartUploadsResult"`
		IsTruncated                       bool
		NextKeyMarker, NextUploadIdMarker string
		Upload                            []up
	}{}
	var all []up
	for _, u := range c.bucket.uploads {
		marker, id := c.q.Get("key-marker"), c.q.Get("upload-id-marker")
		if !u.hidden && strings.HasPrefix(u.key, c.q.Get("prefix")) && (u.key > marker || id != "" && u.key == marker && u.id > id) {
			all = append(all, up{u.key, u.id})
		}
	}
	slices.SortFunc(all, func(a, b up) int { return strings.Compare(a.Key+"\x00"+a.UploadId, b.Key+"\x00"+b.UploadId) })
	if most := c.most("max-uploads"); len(all) > most {
		all = all[:most]
		out.IsTruncated, out.NextKeyMarker, out.NextUploadIdMarker = true, all[most-1].Key, all[most-1].UploadId
	}
	out.Upload = all
	c.xml(out)
}

func (s *Server) list(c *call) {
	type content struct {
		Key          string
		LastModified string
		ETag         string
		Size         int
	}
	out := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		KeyCount              int
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}{}
	after := max(c.q.Get("start-after"), c.q.Get("continuation-token"))
	for _, k := range slices.Sorted(maps.Keys(c.bucket.objects)) {
		if !strings.HasPrefix(k, c.q.Get("prefix")) || k <= after {
			continue
		}
		if len(out.Contents) == c.most("max-keys") {
			out.IsTruncated, out.NextContinuationToken = true, out.Contents[len(out.Contents)-1].Key
			break
		}
		out.Contents = append(out.Contents, content{k, c.bucket.objects[k].when.Format("2006-01-02T15:04:05.000Z"), c.bucket.objects[k].etag, len(c.bucket.objects[k].body)})
	}
	out.KeyCount = len(out.Contents)
	c.xml(out)
}
