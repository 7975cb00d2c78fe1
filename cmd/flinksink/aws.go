package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// bucketClient makes the client of a server of S3, of the flags and of the environment variables that AWS's own tools read. No server is asked.
func (c *call) bucketClient(flag string, f *s3Flags) (*s3.Client, error) {
	endpoint := cmp.Or(f.endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	region := cmp.Or(f.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	o := s3.Options{Region: region}
	switch f.pathStyle {
	case "":
		o.UsePathStyle = endpoint != ""
	case "true", "false":
		o.UsePathStyle = f.pathStyle == "true"
	default:
		return nil, usage(fmt.Errorf("--s3-path-style %q: it is true or false", f.pathStyle))
	}
	if endpoint != "" {
		for _, p := range passwords(endpoint) {
			c.secret(p)
		}
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
			c.secret(endpoint)
			return nil, config("--s3-endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL) takes http://host:port or https://host:port")
		}
		o.BaseEndpoint, o.Region = aws.String(endpoint), cmp.Or(region, "us-east-1")
	} else if region == "" {
		return nil, config("%s: the region of the bucket is missing: --s3-region or AWS_REGION; for a server that is not AWS --s3-endpoint", flag)
	}
	var err error
	if o.Credentials, err = c.awsKeys(flag); err != nil {
		return nil, err
	}
	return s3.New(o), nil
}

// awsKeys finds the keys: those of the environment, or of the endpoint that a container has for them (ECS, EKS Pod Identity).
func (c *call) awsKeys(flag string) (aws.CredentialsProvider, error) {
	id, secret, session := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN")
	c.secret(secret)
	c.secret(session)
	switch full, relative := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"), os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); {
	case id != "" && secret != "":
		return credentials.NewStaticCredentialsProvider(id, secret, session), nil
	case id != "" || secret != "":
		return nil, config("%s: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set both, or neither", flag)
	case full != "":
		return containerKeys(full), nil
	case relative != "":
		return containerKeys("http://169.254.170.2" + relative), nil
	}
	return nil, config("%s: the keys of the bucket are missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; eval \"$(aws configure export-credentials --format env)\" takes them of a profile or a role", flag)
}

func containerKeys(endpoint string) aws.CredentialsProvider {
	provider := endpointcreds.New(endpoint, func(o *endpointcreds.Options) {
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
			if file := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
				b, err := os.ReadFile(file)
				if err != nil {
					return "", errors.New("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read")
				}
				return string(b), nil
			}
			return os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), nil
		})
	})
	return aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) { return provider.Retrieve(ctx) }))
}
