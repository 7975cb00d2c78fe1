package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
)

// bucketClient makes the client of a server of S3, of the flags and of all that AWS's own tools read: environment variables, profiles (AWS_PROFILE, ~/.aws), SSO, web
// identity, and the endpoints that containers and hosts have. The server of the bucket is not asked; where the keys come from a server, that one is.
func (c *call) bucketClient(ctx context.Context, flag string, f *s3Flags) (*s3.Client, error) {
	if f.pathStyle != "" && f.pathStyle != "true" && f.pathStyle != "false" {
		return nil, usage(fmt.Errorf("--s3-path-style %q: it is true or false", f.pathStyle))
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		c.secret(os.Getenv(name))
	}
	if (os.Getenv("AWS_ACCESS_KEY_ID") == "") != (os.Getenv("AWS_SECRET_ACCESS_KEY") == "") {
		return nil, config("%s: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set both, or neither", flag)
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithLogger(logging.Nop{})) // its lines would stand among ours
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
	keys, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, c.badAWS(flag, "the keys of the bucket are missing, or cannot be had: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (of SSO after aws sso login)", err)
	}
	c.secret(keys.SecretAccessKey)
	c.secret(keys.SessionToken)
	return client, nil
}

// badAWS tells what is seen to be wrong with the files of AWS, and else what is the matter in general. The SDK's own words come last, and are left out where they are only
// about the last of the places where it looked for keys, behind the files.
func (c *call) badAWS(flag, what string, err error) error {
	why := ": " + strings.Join(strings.Fields(err.Error()), " ")
	if seen := c.awsFiles(); seen != "" {
		if what = seen; strings.Contains(why, "no EC2 IMDS role found") {
			why = ""
		}
	}
	return &configError{err: &connectFailure{flag + ": " + what + why, err}}
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
