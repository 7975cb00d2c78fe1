package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/flinksink/flinksink/sink"
)

// cause is an error of the SDK with a text of our own: the SDK's may hold the URL of the request, and a key may hold the value of a partition
// column.
type cause struct {
	text string
	err  error
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

// tell returns err with a text that can be logged.
func tell(err error) error {
	var done *cause
	var classed *sink.Error
	var op *smithy.OperationError
	if errors.As(err, &done) || errors.As(err, &classed) || !errors.As(err, &op) {
		return err
	}
	text := op.Operation() + ": "
	var api smithy.APIError
	var u *url.Error
	switch {
	case errors.As(err, &api):
		text += api.ErrorCode()
		if status := statusOf(err); status != 0 {
			text += fmt.Sprintf(" (%d)", status)
		}
		if code := api.ErrorCode(); classOfCode(code) == sink.ErrConfig && api.ErrorMessage() != "" {
			text += ": " + strings.TrimSuffix(withoutFolders(api.ErrorMessage()), ".")
		}
		if right := rightOf(op.Operation()); api.ErrorCode() == "AccessDenied" && right != "" {
			text += ": the credentials need " + right + " here, and no policy may forbid it"
		}
		if api.ErrorCode() == "RequestTimeTooSkewed" {
			text += ": the clock of this host differs from the server's by too much; set it"
		}
	case errors.As(err, &u):
		text += u.Err.Error()
	case statusOf(err) != 0:
		text += fmt.Sprintf("HTTP status %d", statusOf(err))
	default:
		text += innermost(err).Error()
	}
	return &cause{text, err}
}

// rightOf names the right that a request needs, as policies write it: few have the request's name
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html). "": it is not one of the sink's.
func rightOf(operation string) string {
	switch operation {
	case "HeadBucket", "ListObjectsV2":
		return "s3:ListBucket"
	case "ListMultipartUploads":
		return "s3:ListBucketMultipartUploads"
	case "ListParts":
		return "s3:ListMultipartUploadParts"
	case "HeadObject", "GetObject":
		return "s3:GetObject"
	case "PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload":
		return "s3:PutObject"
	case "CopyObject", "UploadPartCopy":
		return "s3:GetObject and s3:PutObject"
	case "DeleteObject":
		return "s3:DeleteObject"
	case "AbortMultipartUpload":
		return "s3:AbortMultipartUpload"
	case "GetBucketLifecycleConfiguration":
		return "s3:GetLifecycleConfiguration"
	}
	return ""
}

// withoutFolders takes the folders of a key out of a server's message, as brief does: AccessDenied names the whole resource. Where a key ends nobody can
// say, so everything goes from the first slash of the resource to the last.
func withoutFolders(message string) string {
	begin := max(strings.Index(message, ":s3:::"), 0)
	first := strings.IndexByte(message[begin:], '/')
	last := strings.LastIndexByte(message, '/')
	if first < 0 || begin+first == last {
		return message
	}
	return message[:begin+first] + "/..." + message[last:]
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// statusOf returns the HTTP status that an error came with, 0 where there was no answer.
func statusOf(err error) int {
	var r interface{ HTTPStatusCode() int }
	if errors.As(err, &r) {
		return r.HTTPStatusCode()
	}
	return 0
}

// codeOf returns S3's code of an error, "" where there is none: a HEAD has no body, and a server that is not well may answer anything.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// The answers that decide something.

func isNoKey(err error) bool {
	switch codeOf(err) {
	case "NoSuchKey", "NotFound":
		return true
	case "NoSuchBucket", "NoSuchUpload":
		return false
	}
	return statusOf(err) == 404
}

func isNoUpload(err error) bool { return codeOf(err) == "NoSuchUpload" }

// isPrecondition: the condition did not hold. As AWS documents it, If-Match on a key that is not there is a 404.
func isPrecondition(err error) bool {
	return codeOf(err) == "PreconditionFailed" || statusOf(err) == 412
}

// isConflict: another conditional write was under way. Nothing was written.
func isConflict(err error) bool {
	code := codeOf(err)
	return code == "ConditionalRequestConflict" || code == "OperationAborted" || code == "" && statusOf(err) == 409
}

// classify returns the class of an error of the SDK, by its type, code and status, never by its text.
func classify(err error) error {
	var classed *sink.Error
	if errors.As(err, &classed) {
		return sink.ClassOf(classed)
	}
	if code := codeOf(err); code != "" {
		if class := classOfCode(code); class != nil {
			return class
		}
	}
	switch status := statusOf(err); {
	case status == 429, status == 503:
		return sink.ErrTransient
	case status == 401, status == 403, status == 301, status == 400, status == 405, status == 501:
		return sink.ErrConfig
	case status == 409, status == 412:
		return sink.ErrTransient
	case status != 0:
		return sink.ErrUncertain
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" { // nothing was sent
		return sink.ErrTransient
	}
	return sink.ErrUncertain
}

// classOfCode returns the class of one of S3's codes (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html), nil for one whose status
// says enough.
func classOfCode(code string) error {
	switch code {
	case "SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"ConditionalRequestConflict", "OperationAborted", "PreconditionFailed",
		"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", // the SDK gets new ones
		"RequestTimeTooSkewed", // NTP may be under way; the text says what to do
		"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch":
		return sink.ErrTransient
	case "InternalError", "RequestTimeout", "NoSuchUpload", "NoSuchKey", "NotFound":
		return sink.ErrUncertain
	case "NoSuchBucket", "InvalidBucketName", "AccessDenied", "AllAccessDisabled", "AccountProblem", "UnauthorizedAccess", "InvalidAccessKeyId", "InvalidToken",
		"SignatureDoesNotMatch", "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "NotImplemented", "MethodNotAllowed",
		"InvalidRequest", "InvalidArgument", "InvalidStorageClass", "InvalidEncryptionAlgorithmError", "KeyTooLongError", "KeyTooLong", "MetadataTooLarge",
		"EntityTooLarge", "EntityTooSmall", "InvalidTag", "DirectoryObjectContainsData", "InvalidPartOrder", "MalformedXML":
		return sink.ErrConfig
	}
	if strings.HasPrefix(code, "KMS.") {
		return sink.ErrConfig
	}
	return nil
}

// undone is the class of an error before Save: whatever became of the request, nothing of the checkpoint can become visible, since names are of this
// generation alone and nobody has decided. So what would be uncertain is transient.
func undone(err error) error {
	if class := classify(err); class != sink.ErrUncertain {
		return class
	}
	return sink.ErrTransient
}

// errorf makes a classed error.
func errorf(class error, format string, a ...any) error {
	return &sink.Error{Class: class, Err: fmt.Errorf(format, a...)}
}

// wrap makes err a [sink.Error] with operation and names. One that has a class keeps it.
func wrap(ctx context.Context, op, name, bridge string, class, err error) error {
	if err == nil {
		return nil
	}
	out := &sink.Error{Op: op, Sink: name, Bridge: bridge, Class: class, Err: tell(err)}
	var e *sink.Error
	if errors.As(err, &e) {
		out.Class, out.Position, out.Rejected, out.Err = e.Class, e.Position, e.Rejected, e.Err
		if out.Err == nil {
			out.Err = e
		}
	}
	if cerr := ctx.Err(); cerr != nil && !errors.Is(out, cerr) {
		out.Err = fmt.Errorf("%w: %w", cerr, out.Err)
	}
	if out.Class == sink.ErrConfig && strings.Contains(out.Err.Error(), "x-amz-checksum") {
		out.Err = fmt.Errorf("the bucket wants a checksum with each body (Object Lock does): set Options.Checksum to ChecksumCRC32: %w", out.Err)
	}
	return out
}
