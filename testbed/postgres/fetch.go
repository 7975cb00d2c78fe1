package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchVersions are the servers that can be fetched, by what [Options.Version] calls them. 17 is the one where none is asked for: it is the oldest
// version that has what the tests of the latest need, and there are archives of it for Linux, macOS and Windows.
var fetchVersions = map[string]embedded.PostgresVersion{
	"": embedded.V17, "13": "13.23.0", "14": "14.24.0", "15": "15.19.0", "16": "16.15.0", "17": embedded.V17, "18": "18.6.0",
}

// fetched gives the folder of the fetched programs, fetching them when they are not there yet.
//
// embedded-postgres has no call that only fetches, and none that takes a user to run as: its Start fetches, unpacks, runs initdb and
// starts the server. So Start is called in a scratch folder, and whatever becomes of its last two steps (as root they fail), the
// programs are kept if, and only if, they pass the test that matters: they make a database cluster as the identity that will use
// them. Then the folder gets its name at once, so that a half unpacked one is never taken for a whole one.
func fetched(ctx context.Context, base string, as identity, version embedded.PostgresVersion, log func(string, ...any)) (string, error) {
	dist := filepath.Join(base, "server-"+string(version))
	bin := filepath.Join(dist, "bin")
	if exists(program(bin, "initdb")) {
		return bin, nil
	}
	log("no such Postgres on this machine: downloading version %s (once, about 30 MB)", version)
	scratch, err := runFolder(base, as)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	port, err := freePort()
	if err != nil {
		return "", err
	}
	unpacked := filepath.Join(scratch, "server")
	var out bytes.Buffer
	db := embedded.NewDatabase(embedded.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		DataPath(filepath.Join(scratch, "first")).
		BinariesPath(unpacked).
		Logger(&out))
	// The library takes no context; its download is left behind when ctx ends.
	started := make(chan error, 1)
	go func() {
		err := db.Start()
		if err == nil {
			err = db.Stop()
		}
		started <- err
	}()
	var startErr error
	select {
	case startErr = <-started:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if !exists(program(filepath.Join(unpacked, "bin"), "initdb")) {
		return "", fmt.Errorf("downloading Postgres %s: %w", version, errors.Join(startErr, errors.New(strings.TrimSpace(out.String()))))
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return "", err
	}
	if err := initdb(ctx, filepath.Join(unpacked, "bin"), filepath.Join(scratch, "data"), as); err != nil {
		return "", fmt.Errorf("the downloaded Postgres %s does not work here: %w", version, err)
	}
	if err := os.Rename(unpacked, dist); err != nil && !exists(program(bin, "initdb")) { // another process may have been first
		return "", err
	}
	return bin, nil
}
