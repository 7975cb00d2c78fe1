package main

import (
	"bytes"
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
	by    string                     // the variable that names it, "" where it is where AWS's tools look by themselves
	there bool                       // else nothing else is known of it
	wrong string                     // the first thing; "": nothing
	text  bool                       // it could be read, and wrong is about a line
	keys  map[string]map[string]bool // names of settings, by profile
}

// awsFiles looks at both files, and says what keeps the profile that is asked for from having keys, "" where nothing is seen; and where it looked.
func (c *call) awsFiles() (seen, places string) {
	profile, by := "default", ""
	for _, name := range []string{"AWS_DEFAULT_PROFILE", "AWS_PROFILE"} {
		if set := os.Getenv(name); set != "" {
			profile, by = set, name
		}
	}
	keys := c.awsFile("AWS_SHARED_CREDENTIALS_FILE", awsconfig.DefaultSharedCredentialsFilename(), "")
	settings := c.awsFile("AWS_CONFIG_FILE", awsconfig.DefaultSharedConfigFilename(), "profile ")
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
		out = append(out, fmt.Sprintf("%s: profile %s lacks %s: add it", keys.name(), profile, lacks))
	case len(out) > 0 || has != nil || settings.gives(profile):
	case by != "" && settings.keys[profile] == nil:
		all := maps.Clone(keys.keys)
		maps.Copy(all, settings.keys)
		cure := "they have none"
		if len(all) > 0 {
			cure = "they have " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		}
		out = append(out, fmt.Sprintf("%s names the profile %s, which is neither in %s nor in %s: %s: correct the name, or add it", by, profile, keys.name(), settings.name(), cure))
	case len(keys.keys) > 0:
		out = append(out, fmt.Sprintf("%s has no profile %s, whose keys nothing else gives: it has %s: set AWS_PROFILE to one of them, or add it", keys.name(), profile, strings.Join(slices.Sorted(maps.Keys(keys.keys)), ", ")))
	}
	return strings.Join(out, "; "), keys.place() + ", in " + settings.place()
}

// name is the file, with what names it.
func (f *awsFile) name() string {
	if f.by != "" {
		return f.by + "=" + f.path
	}
	return f.path
}

// place is the name of the file, and whether it is there.
func (f *awsFile) place() string {
	if !f.there {
		return f.name() + " (which is not there)"
	}
	return f.name()
}

// say is what is wrong, with the cure.
func (f *awsFile) say(section, setting string) string {
	if !f.text {
		return fmt.Sprintf("%s: %s: correct it, or name another file (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE)", f.name(), f.wrong)
	}
	return fmt.Sprintf("%s: %s: write %s on a line, and below it %s, a line each", f.name(), f.wrong, section, setting)
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

// awsFile reads one file, that of a variable or else that of AWS's tools, of sections whose names begin with prefix, but for the default one. What it holds of secrets is kept out of
// every output.
func (c *call) awsFile(variable, usual, prefix string) (f awsFile) {
	f = awsFile{path: usual, there: true, keys: make(map[string]map[string]bool)}
	if path := os.Getenv(variable); path != "" {
		f.path, f.by = path, variable
	}
	text, err := readSome(f.path, mostAWSFile)
	var perr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.there = false; f.by != "" {
			f.wrong = "there is no such file"
		}
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
	for i, line := range strings.Split(strings.TrimPrefix(string(text), mark), "\n") {
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
	if bytes.HasPrefix(text, []byte(mark)) {
		f.text, f.wrong = false, "it begins with a byte order mark (BOM), behind which AWS's tools do not see its first line: save it as UTF-8 without one"
		clear(f.keys)
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
