package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of AWS that is not as it should be is named, with the line and the cure, and nothing of it is shown. The SDK passes over such lines without a word.
func TestAWS_MalformedFiles(t *testing.T) {
	const keys = "aws_access_key_id = a-key\naws_secret_access_key = geheim-x\n"
	const cure = ": write [PROFILE] on a line, and below it aws_access_key_id = ... and aws_secret_access_key = ..., a line each\n"
	for _, c := range []struct{ settings, secrets, want string }{
		{"", "[default\n" + keys, "credentials: line 1 begins a section, and has no name and ] behind it" + cure},
		{"", "# mine\n\n" + keys, "credentials: line 3 is in no section: a line with a profile's name in brackets has to come first" + cure},
		{"", "[]\r\n" + keys, "credentials: line 1 begins a section, and has no name"},
		{"", "[default]\naws_access_key_id a-key\naws_secret_access_key geheim-x\n", "credentials: line 2 is no setting, which is written NAME = VALUE" + cure},
		{"", "[default]\naws_access_key_id = a-key\naws_secret_access_key\n  geheim-x\n", "credentials: line 3 is no setting"},
		{"", "{\"AccessKeyId\": \"a-key\", \"SecretAccessKey\": \"geheim-x\"}\n", "credentials: line 1 is in no section"},
		{"", "\xff\xfe[\x00d\x00g\x00e\x00h\x00e\x00i\x00m\x00", "credentials: it is no plain text (UTF-16, as some editors save, is not read): correct it, or name another file (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE)\n"},
		{"", "[default]\naws_access_key_id = a-key\n", "credentials: profile default lacks aws_secret_access_key: add it"},
		{"", "[default]\naws_secret_access_key = geheim-x\n", "credentials: profile default lacks aws_access_key_id: add it"},
		{"", "[on-call]\n" + keys + "[other]\n" + keys, "credentials has no profile default, whose keys nothing else gives: it has on-call, other: set AWS_PROFILE to one of them, or add it\n"},
		{"[default\ncredential_process = x geheim-x\n", "", "config: line 1 begins a section, and has no name and ] behind it: write [profile NAME], or [default], on a line, and below it settings as NAME = VALUE, a line each\n"},
		{"[default]\nregion eu-west-1\n", "", "config: line 2 is no setting"},
		{"[default]\nregion = eu-west-1\ns3 =\n  max_concurrent_requests = 2\n", "", ": the keys of the bucket are missing, or cannot be had"}, // nothing is wrong with it
	} {
		ofAWS(t, c.settings, c.secrets)
		got := command(t, "positions", "show", "--bridge", "b", "--store", "s3://lake/raw", "--s3-endpoint", "http://127.0.0.1:1")
		if got.status != exitConfig || !strings.Contains(got.errs, c.want) || strings.Contains(got.errs, "geheim") {
			t.Errorf("%q, %q: %+v", c.settings, c.secrets, got)
		}
	}
	ofAWS(t, "", "")
	dir := t.TempDir()
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", dir)
	if got := command(t, "positions", "show", "--bridge", "b", "--store", "s3://lake/raw"); got.status != exitConfig || !strings.Contains(got.errs, dir+": it cannot be read") {
		t.Errorf("a folder: %+v", got)
	}
	// A file is looked at only where something fails.
	path := filepath.Join(dir, "credentials")
	if err := os.WriteFile(path, []byte("[default]\n"+keys+"and a word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
	if _, err := (&call{patience: patience}).bucketClient(t.Context(), "--to", &s3Flags{endpoint: "http://127.0.0.1:1"}); err != nil {
		t.Error(err)
	}
}

// A file that is not there, or begins with a mark that AWS's tools take for a part of the first line, and a profile that is nowhere, are told with what named them, and without
// the SDK's own words.
func TestAWS_NamedFiles(t *testing.T) {
	const keys = "[default]\naws_access_key_id = a-key\naws_secret_access_key = geheim-x\n"
	marked := write(t, "marked", mark+keys)
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"AWS_SHARED_CREDENTIALS_FILE": marked}, "--store: AWS_SHARED_CREDENTIALS_FILE=" + marked + ": it begins with a byte order mark (BOM), behind which AWS's tools do not see its first line: save it as UTF-8 without one"},
		{map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "absent"}, "--store: AWS_SHARED_CREDENTIALS_FILE=absent: there is no such file: correct it"},
		{map[string]string{"AWS_CONFIG_FILE": "absent"}, "--store: AWS_CONFIG_FILE=absent: there is no such file"},
		{map[string]string{"AWS_CONFIG_FILE": marked}, "--store: AWS_CONFIG_FILE=" + marked + ": it begins with a byte order mark"},
		{map[string]string{"AWS_PROFILE": "nobody"}, "--store: AWS_PROFILE names the profile nobody, which is neither in AWS_SHARED_CREDENTIALS_FILE="},
		{nil, "--store: the keys of the bucket are missing, or cannot be had"},
	} {
		ofAWS(t, "", "")
		for name, v := range c.set {
			t.Setenv(name, v)
		}
		got := offline(t, "positions", "show", "--bridge", "b", "--store", "s3://lake/raw", "--s3-endpoint", "http://127.0.0.1:1")
		if got.status != exitConfig || !strings.Contains(got.errs, c.want) || strings.Contains(got.errs, "geheim") || strings.Contains(got.errs, "IMDS") || strings.Contains(got.errs, "failed to") {
			t.Errorf("%v: %+v", c.set, got)
		}
	}
}
