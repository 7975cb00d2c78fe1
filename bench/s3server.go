package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/flinksink/flinksink/sink/s3/s3test"
)

const (
	s3Env    = "FLINKSINK_S3" // names a real server; its keys are those of testbed/s3-up
	roleS3   = "s3"
	s3Hello  = "s3 at "
	s3Bucket = "flinksink-bench"
)

// serveS3 is a server in memory, in a process of its own: neither its memory nor its CPU time is the bridge's.
func serveS3(ctx context.Context, in io.Reader, out io.Writer) error {
	s, err := s3test.Start(s3Bucket)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := fmt.Fprintln(out, s3Hello+s.URL); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return nil
}

// lake is a bucket that objects are written into, below a prefix of this run's own.
type lake struct {
	URL, Bucket, Prefix string
}

func (l lake) client() *s3.Client {
	return s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(l.URL), UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("testbed", "testbed-secret", "")})
}

// startLake finds the server that FLINKSINK_S3 names, or starts one.
func startLake(ctx context.Context) (l lake, about string, stop func(), err error) {
	l = lake{URL: os.Getenv(s3Env), Bucket: s3Bucket, Prefix: fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixNano())}
	if l.URL != "" {
		l.Bucket += "-" + fmt.Sprint(os.Getpid())
		if _, err := l.client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &l.Bucket}); err != nil {
			return l, "", nil, err
		}
		return l, "S3: that of " + s3Env, func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := l.empty(ctx, true)
			if err == nil {
				_, err = l.client().DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &l.Bucket})
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: bucket %s is left behind: %v\n", l.Bucket, err)
			}
		}, nil
	}
	cmd, err := self(roleS3)
	if err != nil {
		return l, "", nil, err
	}
	in, err := cmd.StdinPipe() // the child ends when this does
	if err != nil {
		return l, "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return l, "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return l, "", nil, err
	}
	stop = func() { _ = in.Close(); _ = cmd.Wait() }
	text, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(text), s3Hello)
	if err == nil && !ok {
		err = errors.New("the S3 server's process did not say where it is")
	}
	if err != nil {
		stop()
		return l, "", nil, err
	}
	l.URL = url
	return l, "S3: in memory, in a process of its own (" + s3Env + " names a real one)", stop, nil
}

// empty deletes objects: those of rows, or everything.
func (l lake) empty(ctx context.Context, everything bool) error {
	cl := l.client()
	pages := s3.NewListObjectsV2Paginator(cl, &s3.ListObjectsV2Input{Bucket: &l.Bucket, Prefix: aws.String(l.Prefix + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			if !everything && strings.Contains(*o.Key, "/_flinksink/") {
				continue
			}
			if _, err := cl.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &l.Bucket, Key: o.Key}); err != nil {
				return err
			}
		}
	}
	return nil
}
