package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/flinksink/flinksink/sink"
)

// answered is an error as the SDK gives it for an answer of a server.
func answered(status int, code, message string) error {
	var inner error = errors.New("no body")
	if code != "" {
		inner = &smithy.GenericAPIError{Code: code, Message: message}
	}
	return &smithy.OperationError{ServiceID: "S3", OperationName: "PutObject", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: inner}}}
}

func TestClassify(t *testing.T) {
	sent := &url.Error{Op: "Put", URL: "http://host/bucket/country=secret", Err: &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}}
	dial := &url.Error{Op: "Put", URL: "http://host/bucket/country=secret", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	lost := func(err error) error {
		return &smithy.OperationError{ServiceID: "S3", OperationName: "PutObject", Err: &smithyhttp.RequestSendError{Err: err}}
	}
	for _, c := range []struct {
		err  error
		want error
	}{
		{answered(503, "SlowDown", ""), sink.ErrTransient},
		{answered(503, "", ""), sink.ErrTransient},
		{answered(429, "TooManyRequests", ""), sink.ErrTransient},
		{answered(400, "ExpiredToken", ""), sink.ErrTransient},
		{answered(403, "RequestTimeTooSkewed", ""), sink.ErrTransient},
		{answered(409, "ConditionalRequestConflict", ""), sink.ErrTransient},
		{answered(412, "PreconditionFailed", ""), sink.ErrTransient},
		{answered(400, "BadDigest", ""), sink.ErrTransient},
		{answered(500, "InternalError", ""), sink.ErrUncertain},
		{answered(200, "InternalError", ""), sink.ErrUncertain},
		{answered(400, "RequestTimeout", ""), sink.ErrUncertain},
		{answered(502, "", ""), sink.ErrUncertain},
		{answered(404, "NoSuchUpload", ""), sink.ErrUncertain},
		{answered(404, "NoSuchBucket", ""), sink.ErrConfig},
		{answered(403, "AccessDenied", ""), sink.ErrConfig},
		{answered(403, "", ""), sink.ErrConfig},
		{answered(403, "AccessDenied", `User: arn:aws:sts::1:assumed-role/bridge/session is not authorized to perform: s3:PutObject on resource: "arn:aws:s3:::lake/raw/country=secret Y/name=secret/x.jsonl" because no policy allows it`), sink.ErrConfig},
		{answered(400, "InvalidArgument", "Object name contains unsupported characters: raw/country=secret/a b"), sink.ErrConfig},
		{answered(403, "InvalidAccessKeyId", ""), sink.ErrConfig},
		{answered(403, "SignatureDoesNotMatch", ""), sink.ErrConfig},
		{answered(301, "PermanentRedirect", ""), sink.ErrConfig},
		{answered(400, "InvalidRequest", ""), sink.ErrConfig},
		{answered(400, "KMS.NotFoundException", ""), sink.ErrConfig},
		{answered(501, "NotImplemented", ""), sink.ErrConfig},
		{lost(dial), sink.ErrTransient},
		{lost(sent), sink.ErrUncertain},
		{lost(context.Canceled), sink.ErrUncertain},
		{errors.New("anything"), sink.ErrUncertain},
		{&sink.Error{Class: sink.ErrLost}, sink.ErrLost},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v is %v, expected %v", c.err, got, c.want)
		}
		text := wrap(t.Context(), "write", "lake", "bridge", classify(c.err), c.err).Error()
		if strings.Contains(text, "secret") {
			t.Errorf("the text shows a key: %s", text)
		}
	}
	if !errors.Is(wrap(t.Context(), "x", "", "", nil, lost(context.Canceled)), context.Canceled) {
		t.Error("the end of a context is hidden")
	}
	if text := fmt.Sprint(tell(answered(403, "RequestTimeTooSkewed", ""))); !strings.Contains(text, "clock") {
		t.Errorf("no cure in %s", text)
	}
	if text := fmt.Sprint(tell(answered(403, "AccessDenied", "Access Denied."))); text != "PutObject: AccessDenied (403): Access Denied: the credentials need s3:PutObject here, and no policy may forbid it" {
		t.Errorf("no cure in %s", text)
	}
	if !errors.As(tell(answered(503, "SlowDown", "")), new(*smithy.GenericAPIError)) {
		t.Error("the cause is hidden")
	}
}
