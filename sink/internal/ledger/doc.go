// Package ledger is what a store of one piece of bytes has to decide, and how it keeps it: the rules of Acquire, Save and End on a content in memory, and
// its format as JSON. Who replaces the piece as a whole, by a rename or a compare-and-swap, has a store (filestore, s3).
package ledger
