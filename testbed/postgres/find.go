package postgres

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// places are where installers put the server's programs, as patterns.
func places() []string {
	switch runtime.GOOS {
	case "windows":
		return []string{filepath.Join(os.Getenv("ProgramFiles"), "PostgreSQL", "*", "bin")}
	case "darwin":
		return []string{
			"/opt/homebrew/opt/postgresql*/bin",
			"/usr/local/opt/postgresql*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
			"/Library/PostgreSQL/*/bin",
			"/opt/local/lib/postgresql*/bin",
		}
	}
	return []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // the PostgreSQL project's packages for Red Hat
		"/usr/lib/postgresql*/bin",  // SUSE
		"/usr/libexec/postgresql*",  // Alpine
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
		"/usr/local/pgsql/bin",
	}
}

// installed lists the folders of this machine that hold a server and initdb: PATH's first, then the newest version.
func installed() []string {
	var dirs []string
	for _, place := range places() {
		m, _ := filepath.Glob(place) // the patterns are constant and well formed
		dirs = append(dirs, m...)
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	if p, err := exec.LookPath("postgres"); err == nil {
		// What is on PATH is often a link into the folder that holds the rest.
		if real, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append([]string{filepath.Dir(real)}, dirs...)
		}
	}
	var found []string
	for _, d := range dirs {
		if !slices.Contains(found, d) && exists(program(d, "postgres")) && exists(program(d, "initdb")) {
			found = append(found, d)
		}
	}
	return found
}

var number = regexp.MustCompile(`[0-9]+`)

// version is the first number in a path, which the patterns make the major version.
func version(path string) int {
	n, _ := strconv.Atoi(number.FindString(path))
	return n
}

// major asks the server in a folder for its major version; "" when it does not say.
func major(ctx context.Context, bin string) string {
	out, err := exec.CommandContext(ctx, program(bin, "postgres"), "-V").Output()
	if err != nil {
		return ""
	}
	return number.FindString(string(out))
}

// program is the path of one of the server's programs.
func program(bin, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(bin, name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
