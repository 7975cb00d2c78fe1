package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
)

// This file says what is wrong with the files that AWS's tools keep keys and profiles in. The SDK passes over what it cannot read in them without a word, and then tells of
// the last place where it looked for keys. No line is quoted: any may be a secret.

const (
	awsKey, awsSecret = "aws_access_key_id", "aws_secret_access_key"
	mostAWSFile       = 1 << 20 // bytes that are looked at
)

// awsFile is what one of them holds.
type awsFile struct {
	path  string
	wrong string                     // the first thing; "": nothing
	text  bool                       // it could be read, and wrong is about a line
	keys  map[string]map[string]bool // names of settings, by profile
}

// awsFiles looks at both files, and says what keeps the profile that is asked for from having keys, "" where nothing is seen.
func (c *call) awsFiles() string {
	profile := cmp.Or(os.Getenv("AWS_PROFILE"), os.Getenv("AWS_DEFAULT_PROFILE"), "default")
	keys := c.awsFile(cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), awsconfig.DefaultSharedCredentialsFilename()), "")
	settings := c.awsFile(cmp.Or(os.Getenv("AWS_CONFIG_FILE"), awsconfig.DefaultSharedConfigFilename()), "profile ")
	var out []string
	if keys.wrong != "" {
		out = append(out, keys.say("[PROFILE]", awsKey+" = ... and "+awsSecret+" = ..."))
	}
	if settings.wrong != "" {
		out = append(out, settings.say("[profile NAME], or [default],", "settings as NAME = VALUE"))
	}
	has := keys.keys[profile]
	switch {
	case has[awsKey] != has[awsSecret]:
		lacks := awsSecret
		if has[awsSecret] {
			lacks = awsKey
		}
		out = append(out, fmt.Sprintf("%s: profile %s lacks %s: add it", keys.path, profile, lacks))
	case has == nil && !settings.gives(profile) && len(keys.keys) > 0 && len(out) == 0:
		out = append(out, fmt.Sprintf("%s has no profile %s, whose keys nothing else gives: it has %s: set AWS_PROFILE to one of them, or add it", keys.path, profile, strings.Join(slices.Sorted(maps.Keys(keys.keys)), ", ")))
	}
	return strings.Join(out, "; ")
}

// say is what is wrong, with the cure.
func (f *awsFile) say(section, setting string) string {
	if !f.text {
		return fmt.Sprintf("%s: %s: correct it, or name another file (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE)", f.path, f.wrong)
	}
	return fmt.Sprintf("%s: %s: write %s on a line, and below it %s, a line each", f.path, f.wrong, section, setting)
}

// gives reports whether a profile says where its keys come from.
func (f *awsFile) gives(profile string) bool {
	for _, name := range []string{awsKey, "credential_process", "role_arn", "sso_session", "sso_start_url", "source_profile", "credential_source", "login_session"} {
		if f.keys[profile][name] {
			return true
		}
	}
	return false
}

// awsFile reads one file, of sections whose names begin with prefix, but for the default one. What it holds of secrets is kept out of every output.
func (c *call) awsFile(path, prefix string) (f awsFile) {
	f = awsFile{path: path, keys: make(map[string]map[string]bool)}
	text, err := readSome(path, mostAWSFile)
	var perr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f
	case errors.As(err, &perr):
		f.wrong = "it cannot be read: " + perr.Err.Error()
		return f
	case err != nil:
		f.wrong = "it cannot be read"
		return f
	case bytes.IndexByte(text, 0) >= 0:
		f.wrong = "it is no plain text (UTF-16, as some editors save, is not read)"
		return f
	}
	bad := func(line int, what string) {
		if f.wrong == "" {
			f.wrong = fmt.Sprintf("line %d %s", line, what)
		}
	}
	f.text = true
	section, setting := map[string]bool(nil), false // setting: lines that are set in may go on with it
	for i, line := range strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n") {
		line = strings.TrimRight(line, " \t\r")
		bare := strings.TrimLeft(line, " \t")
		switch name, value, isSetting := strings.Cut(bare, "="); {
		case bare == "" || bare[0] == '#' || bare[0] == ';':
		case bare[0] == '[':
			head, _, closed := strings.Cut(bare[1:], "]")
			head = strings.TrimSpace(head)
			section, setting = make(map[string]bool), false
			if !closed || head == "" {
				bad(i+1, "begins a section, and has no name and ] behind it")
				continue
			}
			name := strings.TrimSpace(strings.TrimPrefix(head, strings.TrimSpace(prefix)))
			if prefix == "" || head == "default" || strings.HasPrefix(head, prefix) {
				f.keys[name] = section
			}
		case section == nil:
			bad(i+1, "is in no section: a line with a profile's name in brackets has to come first")
			c.secret(strings.TrimSpace(value))
		case line != bare && setting:
		case !isSetting || strings.TrimSpace(name) == "":
			bad(i+1, "is no setting, which is written NAME = VALUE")
			if words := strings.Fields(bare); len(words) > 1 && strings.HasPrefix(words[0], "aws_") {
				c.secret(words[1])
			}
		default:
			key := strings.ToLower(strings.TrimSpace(name))
			setting, section[key] = true, strings.TrimSpace(value) != ""
			if key == awsSecret || key == "aws_session_token" {
				c.secret(strings.TrimSpace(value))
			}
		}
	}
	return f
}

// readSome reads a file, up to a bound.
func readSome(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
