// Package filestore keeps a bridge's checkpoints in a file, for sinks that leave receipts and have no store of their own.
//
// # Overview
//
// [New] names a file; the folder must exist. It holds any number of bridges, as JSON that people can read. Each Acquire, Save and End
// replaces the file as a whole: the new content goes to PATH.new, is synced to the disk, renamed to PATH, and the folder is synced. So the file
// is at any moment the one before or the one after, also when the power fails. A Save costs two syncs, some milliseconds.
//
// # Required settings
//
// A local file system: rename must be atomic and flock must be kept, which network file systems do not promise. All processes of a bridge run
// on the one host: whoever runs a second process elsewhere, with a file of its own, has no fence. Several processes on the host may
// share the file; PATH.lock is locked for the moment of each call. Unix; elsewhere New is an ErrConfig.
//
// # Failure
//
// What fails before the rename is ErrTransient: the file is the old one. What fails after it, or may have, is ErrUncertain, which End
// settles: it answers after a replacement of its own was synced, and so the older rename too. A file that cannot be read, or that is gone although
// there was one, is ErrLost and is never taken for a fresh start; to begin anew on purpose, delete PATH.lock with it. A format of a later release
// is ErrConfig.
//
// # Not covered
//
// Backups: a restored older file moves positions back, behind rows that the sinks have committed. The last 1,000 settled generations are
// remembered; End of an older one is ErrConfig.
package filestore
