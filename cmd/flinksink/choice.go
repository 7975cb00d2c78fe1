package main

import "strconv"

// choice is a flag that is true, false, or not given: its default depends on others. In the help it reads like the flags that are true or false.
type choice string

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	is, err := strconv.ParseBool(text)
	if err == nil {
		*c = choice(strconv.FormatBool(is))
	}
	return err
}

// String implements pflag.Value.
func (c *choice) String() string { return string(*c) }

// Type implements pflag.Value.
func (c *choice) Type() string { return "bool" }
