package s3

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/flinksink/flinksink/sink"
)

// lifecycleDays is how long what nobody finishes is kept: longer than a bridge is away with a decided checkpoint.
const lifecycleDays = 7

// Suggestion is about the bucket's lifecycle rules.
type Suggestion struct {
	// Text says what the rules lack or do too soon, and what becomes of it.
	Text string
	// Rule is an element of the list "Rules" of a lifecycle configuration, as the AWS command line takes it. Writing a configuration replaces the one that is there,
	// so the rule is to be added to those. "": nothing is to be added, a rule is to be changed.
	Rule string
}

// SuggestLifecycle compares the bucket's lifecycle rules with what the sink leaves behind when its processes die for good, and with what it
// cannot do without. It returns a suggestion
//
//   - if no rule aborts incomplete multipart uploads, which both modes make: their parts are paid for and in no listing of objects;
//   - if the mode is Rename, and no rule expires the staging folder;
//   - if a rule does one of them within less than 7 days, so that a checkpoint that is decided is lost if the bridge is away for that long;
//   - if a rule expires objects of the sink's own, which have to stay: fences, manifests and the positions of a [Store].
//
// It writes nothing, and needs s3:GetLifecycleConfiguration, which the sink itself does not. A server that refuses the request, or does not know it, is an
// error of class ErrConfig: the rules cannot be seen, and nothing keeps the sink from working.
func (s *Sink) SuggestLifecycle(ctx context.Context) ([]Suggestion, error) {
	out, err := s.b.api.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.b.name})
	var rules []types.LifecycleRule
	switch {
	case codeOf(err) == "NoSuchLifecycleConfiguration": // https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketLifecycleConfiguration.html
	case err != nil:
		class := undone(err)
		if statusOf(err) == 404 && codeOf(err) != "NoSuchBucket" {
			class = sink.ErrConfig // a server that takes the request for another one
		}
		return nil, wrap(ctx, "lifecycle", "", "", class, err)
	default:
		rules = out.Rules
	}
	return s.suggest(rules), nil
}

func (s *Sink) suggest(rules []types.LifecycleRule) (out []Suggestion) {
	all, staging, own := s.prefix, path.Join(s.prefix, stagingFolder)+"/", path.Join(s.prefix, ownFolder)+"/"
	if all != "" {
		all += "/"
	}
	aborts, expires := false, false
	for _, r := range rules {
		if r.Status != types.ExpirationStatusEnabled {
			continue
		}
		prefix, some := scope(&r)
		id := aws.ToString(r.ID)
		if a := r.AbortIncompleteMultipartUpload; a != nil && overlaps(prefix, all) {
			days := aws.ToInt32(a.DaysAfterInitiation)
			aborts = aborts || !some && strings.HasPrefix(all, prefix)
			if days < lifecycleDays {
				out = append(out, Suggestion{Text: fmt.Sprintf("its lifecycle rule %q aborts incomplete uploads after %s: a checkpoint that is decided and not committed within that time, because the bridge is away, is lost (ErrLost). Set it to %d days or more", id, inDays(days), lifecycleDays)})
			}
		}
		e := r.Expiration
		if e == nil || e.Days == nil && e.Date == nil { // of delete markers alone
			continue
		}
		days := aws.ToInt32(e.Days)
		if overlaps(prefix, own) {
			out = append(out, Suggestion{Text: fmt.Sprintf("its lifecycle rule %q deletes objects below %s, where fences, manifests and positions are, which have to stay: name the folder of a table in the rule's prefix", id, own)})
		}
		if s.o.Mode == Rename && overlaps(prefix, staging) {
			expires = expires || !some && e.Days != nil && strings.HasPrefix(staging, prefix)
			if days < lifecycleDays {
				when := "at a date"
				if e.Days != nil {
					when = "after " + inDays(days)
				}
				out = append(out, Suggestion{Text: fmt.Sprintf("its lifecycle rule %q deletes staged objects %s: a checkpoint that is decided and not committed within that time, because the bridge is away, is lost (ErrLost). Set it to %d days or more", id, when, lifecycleDays)})
			}
		}
	}
	if !aborts {
		out = append(out, Suggestion{
			Text: "no lifecycle rule aborts incomplete multipart uploads: what a bridge leaves that never comes back is in no listing of objects, and is paid for",
			Rule: rule("flinksink-uploads", all, `"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": %d}`),
		})
	}
	if s.o.Mode == Rename && !expires {
		out = append(out, Suggestion{
			Text: "no lifecycle rule expires staged objects: what a bridge leaves that never comes back stays, and is paid for",
			Rule: rule("flinksink-staging", staging, `"Expiration": {"Days": %d}`),
		})
	}
	return out
}

// scope returns the prefix that a rule is for, and whether it is for some of the objects below it only: those of a tag or a size.
func scope(r *types.LifecycleRule) (prefix string, some bool) {
	prefix = aws.ToString(r.Prefix) // of old: now it is in the filter
	if f := r.Filter; f != nil {
		if f.Prefix != nil {
			prefix = *f.Prefix
		}
		some = f.Tag != nil || f.ObjectSizeGreaterThan != nil || f.ObjectSizeLessThan != nil
		if and := f.And; and != nil {
			if and.Prefix != nil {
				prefix = *and.Prefix
			}
			some = some || len(and.Tags) > 0 || and.ObjectSizeGreaterThan != nil || and.ObjectSizeLessThan != nil
		}
	}
	return prefix, some
}

// overlaps reports that keys may begin with both.
func overlaps(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

func inDays(n int32) string {
	if n == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}

func rule(id, prefix, action string) string {
	quoted, _ := json.Marshal(prefix) // a string can be marshalled
	return fmt.Sprintf(`{"ID": %q, "Status": "Enabled", "Filter": {"Prefix": %s}, `+action+`}`, id, quoted, lifecycleDays)
}
