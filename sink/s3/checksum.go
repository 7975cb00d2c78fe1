package s3

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// crcOf returns the CRC-32 of all that r holds, as S3 writes it, and leaves r where it was.
func crcOf(r *bytes.Reader) (string, error) {
	if r == nil {
		return "", errors.New("no body")
	}
	h := crc32.NewIEEE()
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if _, err := r.WriteTo(h); err != nil {
		return "", err
	}
	_, err := r.Seek(0, io.SeekStart)
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, h.Sum32())), err
}

func crcOfBytes(b []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)))
}
