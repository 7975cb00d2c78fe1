package format

import (
	"errors"
	"slices"
)

// untold returns what of the key's error is not in the value's already: the value of 'upsert-kafka' holds the columns of the key too, and a
// type that the format cannot do is one mistake. types is the error that the key's format has without any options, so that an option
// that is wrong for both is told for both.
func untold(key, value, types error) error {
	told, ofTypes := texts(value), texts(types)
	var left []error
	for _, err := range single(key) {
		if s := err.Error(); !slices.Contains(told, s) || !slices.Contains(ofTypes, s) {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}

// single takes joined errors apart.
func single(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, single(e)...)
	}
	return all
}

func texts(err error) []string {
	var all []string
	for _, e := range single(err) {
		all = append(all, e.Error())
	}
	return all
}
