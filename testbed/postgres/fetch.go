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

// fetchVersion is the server that is fetched where none is installed. 17 is the oldest version that has what the tests of the latest
// need, and there are archives of it for Linux, macOS and Windows.
const fetchVersion = embedded.V17

// fetched gives the folder of the fetched programs, fetching them when they are not there yet.
//
// embedded-postgres has no call that only fetches, and none that takes a user to run as: its Start fetches, unpacks, runs initdb and
// starts the server. So Start is called in a scratch folder, and whatever becomes of its last two steps (as root they fail), the
// programs are kept if, and only if, they pass the test that matters: they make a database cluster as the identity that will use
// them. Then the folder gets its name at once, so that a half unpacked one is never taken for a whole one.
func fetched(ctx context.Context, base string, as identity, log func(string, ...any)) (string, error) {
	dist := filepath.Join(base, "server-"+string(fetchVersion))
	bin := filepath.Join(dist, "bin")
	if exists(program(bin, "initdb")) {
		return bin, nil
	}
	log("no Postgres on this machine: downloading version %s (once, about 30 MB)", fetchVersion)
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
		Version(fetchVersion).
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
		return "", fmt.Errorf("downloading Postgres %s: %w", fetchVersion, errors.Join(startErr, errors.New(strings.TrimSpace(out.String()))))
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return "", err
	}
	if err := initdb(ctx, filepath.Join(unpacked, "bin"), filepath.Join(scratch, "data"), as); err != nil {
		return "", fmt.Errorf("the downloaded Postgres %s does not work here: %w", fetchVersion, err)
	}
	if err := os.Rename(unpacked, dist); err != nil && !exists(program(bin, "initdb")) { // another process may have been first
		return "", err
	}
	return bin, nil
}
