package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// ofAWS makes an environment of AWS that holds these two files and nothing else.
func ofAWS(t *testing.T, config, credentials string) (home string) {
	t.Helper()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	// The SDK looks for its folder when the program starts, so its files are named.
	t.Setenv("AWS_CONFIG_FILE", write(t, "config", config))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", write(t, "credentials", credentials))
	return home
}

// keyServer answers as the places do that hand keys out: STS, SSO, the endpoint of a container and that of a host. Each has keys of its own.
func keyServer(t *testing.T) string {
	t.Helper()
	until := time.Now().Add(time.Hour).UTC()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "Action=AssumeRoleWithWebIdentity") || !strings.Contains(string(body), "WebIdentityToken=a-token") {
			http.Error(w, string(body), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>web</AccessKeyId>
<SecretAccessKey>geheim-web</SecretAccessKey><SessionToken>geheim-session</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, until.Format(time.RFC3339))
	})
	mux.HandleFunc("GET /federation/credentials", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-amz-sso_bearer_token") != "sso-token" || r.URL.Query().Get("role_name") != "reader" {
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"roleCredentials":{"accessKeyId":"sso","secretAccessKey":"geheim-sso","sessionToken":"geheim-session","expiration":%d}}`, until.UnixMilli())
	})
	given := func(id string) string {
		return fmt.Sprintf(`{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"%s","SecretAccessKey":"geheim-%[1]s","Token":"geheim-session","Expiration":"%[2]s"}`, id, until.Format(time.RFC3339))
	}
	mux.HandleFunc("GET /container", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "a-token" {
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		io.WriteString(w, given("container"))
	})
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-aws-ec2-metadata-token-ttl-seconds", "21600")
		io.WriteString(w, "of the host")
	})
	mux.HandleFunc("GET /latest/meta-data/iam/security-credentials/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/latest/meta-data/iam/security-credentials/" {
			io.WriteString(w, "role")
			return
		}
		io.WriteString(w, given("host"))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// Keys are found wherever AWS's own tools find them.
func TestAWS_Keys(t *testing.T) {
	const profiles = `
[default]
region = eu-central-1
[profile on-call]
region = eu-west-1
endpoint_url = http://lake.example:9000
[profile services]
region = eu-west-2
services = mine
[services mine]
s3 =
  endpoint_url = http://s3.example:9000
[profile web]
region = eu-west-1
role_arn = arn:aws:iam::123456789012:role/web
web_identity_token_file = TOKENFILE
[profile sso]
region = eu-west-1
sso_session = main
sso_account_id = 123456789012
sso_role_name = reader
[sso-session main]
sso_region = eu-west-1
sso_start_url = https://start.example
[profile process]
region = eu-west-1
credential_process = PROCESS
`
	const secrets = `
[default]
aws_access_key_id = default
aws_secret_access_key = geheim-default
[on-call]
aws_access_key_id = on-call
aws_secret_access_key = geheim-on-call
[services]
aws_access_key_id = services
aws_secret_access_key = geheim-services
`
	server := keyServer(t)
	for _, c := range []struct {
		name     string
		set      map[string]string
		without  bool // the files
		flags    s3Flags
		id       string
		region   string
		endpoint string
	}{
		{name: "the default profile", id: "default", region: "eu-central-1"},
		{name: "a profile with an endpoint", set: map[string]string{"AWS_PROFILE": "on-call"}, id: "on-call", region: "eu-west-1", endpoint: "http://lake.example:9000"},
		{name: "a profile with an endpoint of S3", set: map[string]string{"AWS_PROFILE": "services"}, id: "services", region: "eu-west-2", endpoint: "http://s3.example:9000"},
		{name: "flags count more", set: map[string]string{"AWS_PROFILE": "on-call", "AWS_ENDPOINT_URL_S3": "http://other:1"}, flags: s3Flags{endpoint: "http://flag:1", region: "xx-flag-1"}, id: "on-call", region: "xx-flag-1", endpoint: "http://flag:1"},
		{name: "the environment counts more than a profile", set: map[string]string{"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "geheim-env", "AWS_REGION": "eu-env-1"}, id: "env", region: "eu-env-1"},
		{name: "an endpoint without a region", without: true, set: map[string]string{"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "geheim-env", "AWS_ENDPOINT_URL": "http://own:9000"}, id: "env", region: "us-east-1", endpoint: "http://own:9000"},
		{name: "web identity", set: map[string]string{"AWS_PROFILE": "web", "AWS_ENDPOINT_URL_STS": server}, id: "web", region: "eu-west-1"},
		{name: "SSO", set: map[string]string{"AWS_PROFILE": "sso", "AWS_ENDPOINT_URL_SSO": server}, id: "sso", region: "eu-west-1"},
		{name: "a process", set: map[string]string{"AWS_PROFILE": "process"}, id: "process", region: "eu-west-1"},
		{name: "a container", without: true, set: map[string]string{"AWS_REGION": "eu-west-1", "AWS_CONTAINER_CREDENTIALS_FULL_URI": server + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a-token"}, id: "container", region: "eu-west-1"},
		{name: "a host", without: true, set: map[string]string{"AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": server}, id: "host", region: "eu-west-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.id == "process" && runtime.GOOS == "windows" {
				t.Skip("the process of this test is cat")
			}
			token := write(t, "token", "a-token")
			given := write(t, "given.json", `{"Version":1,"AccessKeyId":"process","SecretAccessKey":"geheim-process"}`)
			text, keys := strings.NewReplacer("TOKENFILE", token, "PROCESS", "cat "+given).Replace(profiles), secrets
			if c.without {
				text, keys = "", ""
			}
			home := ofAWS(t, text, keys)
			sum := sha1.Sum([]byte("main"))
			cache := filepath.Join(home, ".aws", "sso", "cache")
			if err := os.MkdirAll(cache, 0o700); err != nil {
				t.Fatal(err)
			}
			session := fmt.Sprintf(`{"accessToken":"sso-token","expiresAt":"%s","region":"eu-west-1","startUrl":"https://start.example"}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			if err := os.WriteFile(filepath.Join(cache, hex.EncodeToString(sum[:])+".json"), []byte(session), 0o600); err != nil {
				t.Fatal(err)
			}
			for name, v := range c.set {
				t.Setenv(name, v)
			}
			call := &call{patience: patience}
			client, err := call.bucketClient(t.Context(), "--to", &c.flags)
			if err != nil {
				t.Fatal(err)
			}
			o := client.Options()
			got, err := o.Credentials.Retrieve(t.Context())
			if err != nil || got.AccessKeyID != c.id || got.SecretAccessKey != "geheim-"+c.id {
				t.Errorf("keys %q, %v", got.AccessKeyID, err)
			}
			if o.Region != c.region || aws.ToString(o.BaseEndpoint) != c.endpoint || o.UsePathStyle != (c.endpoint != "") {
				t.Errorf("region %q, endpoint %q, path style %t", o.Region, aws.ToString(o.BaseEndpoint), o.UsePathStyle)
			}
		})
	}
}

// A whole run whose keys and server stand in a profile.
func TestAWS_Profile(t *testing.T) {
	broker, lake := newBroker(t), newBucket(t)
	makeTopic(t, broker, "views", 1)
	view(t, broker, 1, "10")
	ofAWS(t, "[profile on-call]\nregion = eu-west-1\nendpoint_url = "+lake.URL+"\n", "[on-call]\naws_access_key_id = on-call\naws_secret_access_key = geheim-on-call\n")
	t.Setenv("AWS_PROFILE", "on-call")
	got := command(t, "run", "--bridge", "views", "--ddl", write(t, "ddl.sql", viewsDDL), "--brokers", broker, "--to", "s3://lake/raw", "--until-end")
	if got.status != exitDone || !strings.Contains(got.out, "applied") {
		t.Errorf("%+v", got)
	}
}

// What is missing, and what cannot be read, is told before anything is written, without a secret.
func TestAWS_Missing(t *testing.T) {
	for _, c := range []struct {
		name, config string
		set          map[string]string
		want         []string
	}{
		{"no keys", "", nil, []string{"the keys of the bucket are missing", "AWS_PROFILE"}},
		{"no such profile", "", map[string]string{"AWS_PROFILE": "nobody"}, []string{"AWS_PROFILE", "nobody"}},
		{"half of the keys", "", map[string]string{"AWS_ACCESS_KEY_ID": "x"}, []string{"both, or neither"}},
		{"SSO that was never logged in to", "[profile sso]\nsso_session = main\nsso_account_id = 1\nsso_role_name = r\n[sso-session main]\nsso_region = eu-west-1\nsso_start_url = https://start.example\n",
			map[string]string{"AWS_PROFILE": "sso"}, []string{"aws sso login"}},
		{"a process whose output cannot be read", "[profile p]\ncredential_process = echo '{\"Version\":\"1\",\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"geheim\"}'\n", map[string]string{"AWS_PROFILE": "p"}, []string{"cannot be had", "credential_process"}},
		{"a process that fails", "[profile p]\ncredential_process = false\n", map[string]string{"AWS_PROFILE": "p"}, []string{"cannot be had"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ofAWS(t, c.config, "")
			t.Setenv("AWS_REGION", "eu-west-1")
			for name, v := range c.set {
				t.Setenv(name, v)
			}
			_, err := (&call{patience: patience}).bucketClient(context.Background(), "--to", &s3Flags{})
			if err == nil || !isConfig(err) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), "geheim") {
				t.Errorf("the error holds the key: %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in: %v", w, err)
				}
			}
		})
	}
}
