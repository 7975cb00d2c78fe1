package s3

import (
	"bytes"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// createUpload begins an upload. The metadata that is given here is the object's once it is completed: the proof of whose it is.
func (b *bucket) createUpload(ctx context.Context, key, token, content string) (string, error) {
	s := b.settings
	in := &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: &key, Metadata: map[string]string{tokenKey: token}, ContentType: optional(content), RequestPayer: b.payer(),
		StorageClass: s.StorageClass, ServerSideEncryption: s.Encryption, SSEKMSKeyId: optional(s.KMSKey), Tagging: optional(s.Tagging)}
	if s.BucketKey {
		in.BucketKeyEnabled = aws.Bool(true)
	}
	if s.Checksum == ChecksumCRC32 {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
	}
	out, err := b.api.CreateMultipartUpload(ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.UploadId), nil
}

// uploadPart sends a part. Its checksum goes into the receipt only where the upload declared an algorithm: servers refuse to complete it with any other
// combination.
func (b *bucket) uploadPart(ctx context.Context, key, id string, number int, body []byte) (partReceipt, error) {
	in := &s3.UploadPartInput{Bucket: &b.name, Key: &key, UploadId: &id, PartNumber: aws.Int32(int32(number)), Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), RequestPayer: b.payer()}
	var p partReceipt
	if b.settings.Checksum == ChecksumCRC32 {
		p.CRC32 = crcOfBytes(body)
		in.ChecksumCRC32 = &p.CRC32
	}
	out, err := b.api.UploadPart(ctx, in)
	if err != nil {
		return partReceipt{}, err
	}
	p.ETag = aws.ToString(out.ETag)
	return p, nil
}

// completeUpload makes the object out of its parts, unless there is one of that name. Its answer is no proof of anything: see visible. The condition
// guards the objects of others, not ours, whose names are used once; so a server that does not know it is asked without.
func (b *bucket) completeUpload(ctx context.Context, key, id string, parts []partReceipt) (string, error) {
	list := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		list[i] = types.CompletedPart{ETag: aws.String(p.ETag), PartNumber: aws.Int32(int32(i + 1)), ChecksumCRC32: optional(p.CRC32)}
	}
	in := &s3.CompleteMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: &id, IfNoneMatch: aws.String("*"),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: list}, RequestPayer: b.payer()}
	out, err := b.api.CompleteMultipartUpload(ctx, in)
	if statusOf(err) == 501 {
		in.IfNoneMatch = nil
		out, err = b.api.CompleteMultipartUpload(ctx, in)
	}
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}
