package s3_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

// pasted is a rule as it is suggested, read as the AWS command line reads it.
func pasted(t *testing.T, text string) types.LifecycleRule {
	t.Helper()
	var r struct {
		ID, Status                     string
		Filter                         struct{ Prefix string }
		AbortIncompleteMultipartUpload *struct{ DaysAfterInitiation int32 }
		Expiration                     *struct{ Days int32 }
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out := types.LifecycleRule{ID: &r.ID, Status: types.ExpirationStatus(r.Status), Filter: &types.LifecycleRuleFilter{Prefix: &r.Filter.Prefix}}
	if a := r.AbortIncompleteMultipartUpload; a != nil {
		out.AbortIncompleteMultipartUpload = &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: &a.DaysAfterInitiation}
	}
	if e := r.Expiration; e != nil {
		out.Expiration = &types.LifecycleExpiration{Days: &e.Days}
	}
	return out
}

// A bucket without rules is told what it lacks, and once that is put there, nothing more. A server without such rules says so.
func TestSuggestLifecycle(t *testing.T) {
	for on, server := range servers() {
		t.Run(on, func(t *testing.T) {
			e := server(t)
			var rules []types.LifecycleRule
			for mode, want := range [][]string{s3.Multipart: {"AbortIncompleteMultipartUpload"}, s3.Rename: {`"lake/_staging/"`}} { // the first rule is there for the second mode
				s := e.sink(&s3.Options{Mode: s3.Mode(mode)})
				lacks, err := s.SuggestLifecycle(t.Context())
				if err != nil {
					if on == "fake" || !errors.Is(err, sink.ErrConfig) {
						t.Fatal(err)
					}
					t.Skipf("the server has no such rules, and says so: %v", err)
				}
				if len(lacks) != len(want) {
					t.Fatalf("mode %d: %+v", mode, lacks)
				}
				for i := range lacks {
					if !strings.Contains(lacks[i].Rule, want[i]) {
						t.Errorf("mode %d: %+v", mode, lacks[i])
					}
					rules = append(rules, pasted(t, lacks[i].Rule))
				}
				if _, err := e.api.PutBucketLifecycleConfiguration(t.Context(), &awss3.PutBucketLifecycleConfigurationInput{Bucket: &e.bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules}}); err != nil {
					t.Fatalf("mode %d: the server does not take the rule: %v", mode, err)
				}
				if lacks, err := s.SuggestLifecycle(t.Context()); err != nil || len(lacks) != 0 {
					t.Errorf("mode %d: with the rule there: %+v, %v", mode, lacks, err)
				}
			}
		})
	}
}

// Rules that somebody has already: whether they do it, for all of the sink, and not too soon.
func TestSuggestLifecycle_Rules(t *testing.T) {
	e := newFake(t)
	abort := func(days int32) *types.AbortIncompleteMultipartUpload {
		return &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: &days}
	}
	expire := func(days int32) *types.LifecycleExpiration { return &types.LifecycleExpiration{Days: &days} }
	below := func(prefix string) *types.LifecycleRuleFilter { return &types.LifecycleRuleFilter{Prefix: &prefix} }
	const on, off = types.ExpirationStatusEnabled, types.ExpirationStatusDisabled
	const noAbort, noExpire = "no lifecycle rule aborts", "no lifecycle rule expires"
	good := types.LifecycleRule{Status: on, Filter: below(""), AbortIncompleteMultipartUpload: abort(7)}
	for name, c := range map[string]struct {
		mode s3.Mode
		rule types.LifecycleRule
		more bool // the good one is there too
		want []string
	}{
		"of the bucket":      {rule: good},
		"without a filter":   {rule: types.LifecycleRule{Status: on, AbortIncompleteMultipartUpload: abort(30)}},
		"of the prefix":      {rule: types.LifecycleRule{Status: on, Filter: below("lake/"), AbortIncompleteMultipartUpload: abort(7)}},
		"prefix of old":      {rule: types.LifecycleRule{Status: on, Prefix: aws.String("la"), AbortIncompleteMultipartUpload: abort(7)}},
		"of another place":   {rule: types.LifecycleRule{Status: on, Filter: below("lakes/"), AbortIncompleteMultipartUpload: abort(1)}, want: []string{noAbort}},
		"of a part":          {rule: types.LifecycleRule{Status: on, Filter: below("lake/orders/"), AbortIncompleteMultipartUpload: abort(7)}, want: []string{noAbort}},
		"off":                {rule: types.LifecycleRule{Status: off, Filter: below(""), AbortIncompleteMultipartUpload: abort(1)}, want: []string{noAbort}},
		"too soon":           {rule: types.LifecycleRule{ID: aws.String("mine"), Status: on, Filter: below(""), AbortIncompleteMultipartUpload: abort(1)}, want: []string{`"mine" aborts incomplete uploads after 1 day:`}},
		"deletes positions":  {more: true, rule: types.LifecycleRule{ID: aws.String("old"), Status: on, Filter: below("lake"), Expiration: expire(365)}, want: []string{`"old" deletes objects below lake/_flinksink/`}},
		"deletes by tag":     {more: true, rule: types.LifecycleRule{ID: aws.String("old"), Status: on, Filter: &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{Prefix: aws.String("lake/_flinksink/x"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}}, Expiration: expire(9)}, want: []string{`"old" deletes objects`}},
		"deletes data":       {more: true, rule: types.LifecycleRule{Status: on, Filter: below("lake/orders/"), Expiration: expire(1)}},
		"old versions":       {more: true, rule: types.LifecycleRule{Status: on, Filter: below(""), Expiration: &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)}}},
		"staging":            {mode: s3.Rename, more: true, rule: types.LifecycleRule{Status: on, Filter: below("lake/_staging/"), Expiration: expire(8)}},
		"staging too soon":   {mode: s3.Rename, more: true, rule: types.LifecycleRule{ID: aws.String("st"), Status: on, Filter: below("lake/_st"), Expiration: expire(2)}, want: []string{`"st" deletes staged objects after 2 days`}},
		"staging of one":     {mode: s3.Rename, more: true, rule: types.LifecycleRule{Status: on, Filter: below("lake/_staging/orders/"), Expiration: expire(8)}, want: []string{noExpire}},
		"staging, Multipart": {more: true, rule: types.LifecycleRule{Status: on, Filter: below("lake/_staging/"), Expiration: expire(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := []types.LifecycleRule{c.rule}
			if c.more {
				rules = append(rules, good)
			}
			if _, err := e.api.PutBucketLifecycleConfiguration(t.Context(), &awss3.PutBucketLifecycleConfigurationInput{Bucket: &e.bucket, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules}}); err != nil {
				t.Fatal(err)
			}
			lacks, err := e.sink(&s3.Options{Mode: c.mode}).SuggestLifecycle(t.Context())
			if err != nil || len(lacks) != len(c.want) {
				t.Fatalf("%+v, %v", lacks, err)
			}
			for i, l := range lacks {
				if !strings.Contains(l.Text, c.want[i]) || (l.Rule != "") != strings.HasPrefix(l.Text, "no ") {
					t.Errorf("%+v", l)
				}
			}
		})
	}
}

// Rules that cannot be seen are an error of the settings, which names no key; a server that is down is one that passes.
func TestSuggestLifecycle_Unseen(t *testing.T) {
	e := newFake(t)
	for _, c := range []struct {
		status int
		code   string
		class  error
	}{
		{http.StatusForbidden, "AccessDenied", sink.ErrConfig},
		{http.StatusNotImplemented, "NotImplemented", sink.ErrConfig},
		{http.StatusMethodNotAllowed, "MethodNotAllowed", sink.ErrConfig},
		{http.StatusNotFound, "NoSuchKey", sink.ErrConfig},
		{http.StatusNotFound, "NoSuchBucket", sink.ErrConfig},
		{http.StatusServiceUnavailable, "SlowDown", sink.ErrTransient},
		{http.StatusInternalServerError, "InternalError", sink.ErrTransient},
	} {
		e.fake.Intercept = func(r s3test.Request) *s3test.Fault {
			if r.Op != "GetBucketLifecycleConfiguration" {
				t.Errorf("it asks for %s", r.Op)
			}
			return &s3test.Fault{Status: c.status, Code: c.code}
		}
		if lacks, err := e.sink(nil).SuggestLifecycle(t.Context()); lacks != nil || !errors.Is(err, c.class) {
			t.Errorf("%s: %v, %v", c.code, lacks, err)
		}
	}
}
