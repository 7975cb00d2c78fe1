package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/flinksink/flinksink/sink"
	"github.com/flinksink/flinksink/sink/s3"
)

// A reader turns pages as long as there are more, and does not go round in circles on a server that answers the same page again.
func TestReader_Pages(t *testing.T) {
	for what, answer := range map[string]func(token string) string{
		"the same page again": func(string) string {
			return `<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken><Contents><Key>lake/_flinksink/a</Key></Contents>`
		},
		"empty pages": func(string) string {
			return `<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>`
		},
		"out of order": func(string) string {
			return `<Contents><Key>lake/_flinksink/b</Key></Contents><Contents><Key>lake/_flinksink/a</Key></Contents>`
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `<ListBucketResult>%s</ListBucketResult>`, answer(r.URL.Query().Get("continuation-token")))
		}))
		defer server.Close()
		e := &env{t: t, url: server.URL, bucket: "bucket"}
		r, err := s3.NewReader(e.client(nil), "bucket", "lake", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := error(nil)
		for _, err := range r.Manifests(t.Context()) {
			got = err
		}
		if sink.ClassOf(got) != sink.ErrConfig || !strings.Contains(got.Error(), "listing") {
			t.Errorf("%s: %v", what, got)
		}
	}
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		fmt.Fprintf(w, `<ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>t%d</NextContinuationToken><Contents><Key>lake/_flinksink/%06d</Key></Contents></ListBucketResult>`, n < 1200, n, n)
	}))
	defer server.Close()
	r, err := s3.NewReader(awss3.New(awss3.Options{Region: "r", BaseEndpoint: aws.String(server.URL), UsePathStyle: true}), "bucket", "lake", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Manifests(t.Context()) {
		t.Fatal(err)
	}
	if n != 1200 {
		t.Errorf("%d pages were read of 1200", n)
	}
}

// A bridge or a sink may have the name of one of the folders of the sink's own.
func TestReader_NamesOfItsOwnFolders(t *testing.T) {
	e := newFake(t)
	for _, name := range []string{"manifest", "letter", "compaction"} {
		e.putObject("lake/_flinksink/"+name+"/store.json", "{}", "")
		e.putObject("lake/_flinksink/bridge/"+name+"/fence/1.json", "{}", "")
	}
	r, err := s3.NewReader(e.api, e.bucket, "lake", nil)
	if err != nil {
		t.Fatal(err)
	}
	for m, err := range r.Manifests(t.Context()) {
		t.Errorf("%+v, %v", m, err)
	}
	for l, err := range r.DeadLetters(t.Context()) {
		t.Errorf("%+v, %v", l, err)
	}
}
