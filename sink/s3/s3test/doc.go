// Package s3test is an S3 server in memory, for tests and examples. It knows the calls that package s3 makes and answers as S3 does where that
// matters to exactly-once: conditional writes under one lock, the rules of parts, uploads that are gone, metadata, paging, checksums. One list of
// cases holds it to what real servers answered.
//
// It checks no signature and keeps nothing when its process ends. A hook ([Server.Intercept]) loses answers, refuses requests, and answers 200
// with an error in its body.
package s3test
