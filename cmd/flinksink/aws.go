package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
)

// bucketClient makes the client of a server of S3, of the flags and of all that AWS's own tools read: environment variables, profiles (AWS_PROFILE, ~/.aws), SSO, web
// identity, and the endpoints that containers and hosts have. The server of the bucket is not asked; where the keys come from a server, that one is.
func (c *call) bucketClient(ctx context.Context, flag string, f *s3Flags) (*s3.Client, error) {
	client, err := c.newBucketClient(flag, f)
	if err != nil {
		return nil, err
	}
	return client, c.keysOf(ctx, flag, client)
}

// bucketAt makes the client of a bucket, and connects to its server, or says within c.patience why it cannot.
func (c *call) bucketAt(ctx context.Context, flag string, f *s3Flags, at folder) (*s3.Client, error) {
	client, err := c.newBucketClient(flag, f)
	if err != nil {
		return nil, err
	}
	return client, c.reach(ctx, flag, f, client, at)
}

// newBucketClient makes the client, or says what is wrong with flags, variables and files. It reaches no server.
func (c *call) newBucketClient(flag string, f *s3Flags) (*s3.Client, error) {
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		c.secret(os.Getenv(name))
	}
	if (os.Getenv("AWS_ACCESS_KEY_ID") == "") != (os.Getenv("AWS_SECRET_ACCESS_KEY") == "") {
		return nil, config("%s: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set both, or neither", flag)
	}
	cfg, err := awsconfig.LoadDefaultConfig(context.Background(), awsconfig.WithLogger(logging.Nop{})) // its lines would stand among ours
	if err != nil {
		return nil, c.badAWS(flag, "what is set for AWS cannot be read (AWS_PROFILE, AWS_CONFIG_FILE, ~/.aws)", err)
	}
	cfg.Credentials = discreet{cfg.Credentials}
	var bad error
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		// As with s3.New: checksums are the sink's own setting, and servers that are not AWS's may lack them.
		o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationUnset, aws.ResponseChecksumValidationUnset
		bad = c.placeClient(o, flag, f)
	})
	if bad != nil {
		return nil, bad
	}
	return client, nil
}

// keysOf looks for the keys of a client, wherever AWS's own tools would find them.
func (c *call) keysOf(ctx context.Context, flag string, client *s3.Client) error {
	ask, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	keys, err := client.Options().Credentials.Retrieve(ask)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return c.badAWS(flag, "the keys of the bucket are missing, or cannot be had: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (of SSO after aws sso login)", err)
	}
	c.secret(keys.SecretAccessKey)
	c.secret(keys.SessionToken)
	return nil
}

// reach looks for the keys of a client, and asks the server of a bucket for any answer, for c.patience at most. What it answers is judged by whoever asks it for something.
func (c *call) reach(ctx context.Context, flag string, f *s3Flags, client *s3.Client, at folder) error {
	if err := c.keysOf(ctx, flag, client); err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := client.HeadBucket(ask, &s3.HeadBucketInput{Bucket: &at.bucket}, func(o *s3.Options) { o.RetryMaxAttempts = 1 })
		var answered interface{ HTTPStatusCode() int }
		if err == nil || errors.As(err, &answered) && answered.HTTPStatusCode() != 0 {
			return noBucket(ask, flag, client, at, err)
		}
		select {
		case <-time.After(wait):
		case <-ask.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return c.awayBucket(flag, f, client, at, err)
		}
	}
}

// noBucket refuses a bucket of which the server says that there is none. A HEAD that is answered by 404 does not say so yet: a listing is asked for the code of S3.
func noBucket(ctx context.Context, flag string, client *s3.Client, at folder, head error) error {
	var answered interface{ HTTPStatusCode() int }
	if !errors.As(head, &answered) || answered.HTTPStatusCode() != http.StatusNotFound {
		return nil
	}
	_, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &at.bucket, MaxKeys: aws.Int32(1)})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "NoSuchBucket" {
		return config("%s: there is no bucket %q: make it, or name another", flag, at.bucket)
	}
	return nil
}

// awayBucket says that no server answers for a bucket, which address was tried, and where that comes from.
func (c *call) awayBucket(flag string, f *s3Flags, client *s3.Client, at folder, err error) error {
	o := client.Options()
	where := "AWS in region " + o.Region
	cure := fmt.Sprintf("check the region (%s), the bucket's name in %s, and the network; a server that is not AWS is named by --s3-endpoint", saidBy("--s3-region", f.region, "AWS_REGION", "AWS_DEFAULT_REGION"), flag)
	if endpoint := aws.ToString(o.BaseEndpoint); endpoint != "" {
		where = endpoint
		cure = fmt.Sprintf("check the address (%s), and that the server runs", saidBy("--s3-endpoint", f.endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
		if !o.UsePathStyle {
			cure += "; without --s3-path-style the bucket is a part of the host's name"
		}
	}
	why := withoutURL(err)
	var no *net.OpError
	if errors.As(err, &no) {
		why = no.Error() // with the address
	}
	return &configError{err: &worded{fmt.Sprintf("%s: no answer for bucket %q from %s within %s: %s; %s", flag, at.bucket, where, c.patience, why, cure), err}}
}

// saidBy names what said where a server is: the flag, if it was given, or the first of the variables that is set, or else the profile.
func saidBy(flag, given string, variables ...string) string {
	if given != "" {
		return flag
	}
	for _, name := range variables {
		if os.Getenv(name) != "" {
			return name + ", or give " + flag
		}
	}
	return "that of the profile, or give " + flag
}

// badAWS tells what is seen to be wrong with the files of AWS, and else what is the matter in general, with the SDK's own words. Those are left out where they are only
// about the last of the places where it looked for keys, and all of them are named.
func (c *call) badAWS(flag, what string, err error) error {
	why := ": " + strings.Join(strings.Fields(err.Error()), " ")
	seen, places := c.awsFiles()
	last := strings.Contains(why, "no EC2 IMDS role found")
	switch {
	case seen != "" && (last || strings.Contains(why, "shared config profile")):
		what, why = seen, ""
	case seen != "":
		what = seen
	case last:
		why = ". None are in the environment, in " + places + ", or at the endpoint of a container or a host"
	}
	return &configError{err: &worded{flag + ": " + what + why, err}}
}

// discreet keeps the output of a credential_process, which the SDK quotes where it cannot read it, out of errors: it holds keys.
type discreet struct{ aws.CredentialsProvider }

func (d discreet) Retrieve(ctx context.Context) (aws.Credentials, error) {
	keys, err := d.CredentialsProvider.Retrieve(ctx)
	var of *processcreds.ProviderError
	if errors.As(err, &of) {
		err = errors.New("the credential_process of the profile failed, or printed what is not the JSON of AWS (run it by hand)")
	}
	return keys, err
}

// placeClient sets where the server is: flags count more than what was found.
func (c *call) placeClient(o *s3.Options, flag string, f *s3Flags) error {
	if f.endpoint != "" {
		o.BaseEndpoint = aws.String(f.endpoint)
	}
	if f.region != "" {
		o.Region = f.region
	}
	endpoint := aws.ToString(o.BaseEndpoint)
	o.UsePathStyle = f.pathStyle == "true" || f.pathStyle == "" && endpoint != ""
	if endpoint == "" {
		if o.Region == "" {
			return config("%s: the region of the bucket is missing: --s3-region or AWS_REGION; for a server that is not AWS --s3-endpoint", flag)
		}
		return nil
	}
	for _, p := range passwords(endpoint) {
		c.secret(p)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		c.secret(endpoint)
		return config("--s3-endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL) takes http://host:port or https://host:port")
	}
	o.Region = cmp.Or(o.Region, "us-east-1")
	return nil
}
