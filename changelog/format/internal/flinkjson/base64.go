package flinkjson

// Jackson's base64 variant MIME_NO_LINEFEEDS, as its parsers read it: groups of four characters with their padding, after any of
// which another group may follow; blanks before a group are skipped; bits that a padded group has to spare are not looked at.

// What a character is that is no digit.
const (
	base64Invalid = -1
	base64Padding = -2
	base64Blank   = -3
	base64End     = -4
)

func base64Digit(c int) int {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A'
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26
	case c >= '0' && c <= '9':
		return c - '0' + 52
	case c == '+':
		return 62
	case c == '/':
		return 63
	case c == '=':
		return base64Padding
	}
	return base64Invalid
}

// decodeBase64 asks digit for one digit after another; place is where in its group of four it stands.
func decodeBase64(digit func(place int) (int, *Failure)) (out []byte, f *Failure) {
	for {
		var group, n int // digits, and how many
	digits:
		for n = 0; n < 4; {
			d, f := digit(n)
			switch {
			case f != nil:
				return out, f
			case n == 0 && d == base64End:
				return out, nil
			case n == 0 && d == base64Blank:
			case n >= 2 && d == base64Padding:
				break digits
			case d < 0:
				return out, misfitf("not base64 with padding")
			default:
				group = group<<6 | d
				n++
			}
		}
		switch n {
		case 4:
			out = append(out, byte(group>>16), byte(group>>8), byte(group))
		case 3:
			out = append(out, byte(group>>10), byte(group>>2))
		case 2:
			if d, f := digit(3); f != nil {
				return out, f
			} else if d != base64Padding {
				return out, misfitf("not base64 with padding")
			}
			out = append(out, byte(group>>4))
		}
	}
}

// binary is JsonParser.getBinaryValue. On an error the string stays unread, from where the error was: the quote that ends it may be
// behind that.
func (l *lexer) binary() ([]byte, *Failure) {
	if l.tok != tokString {
		return nil, misfitf("not a string in base64")
	}
	out, f := decodeBase64(l.base64Digit)
	if f == nil {
		l.incomplete = false
	}
	return out, f
}

func (l *lexer) base64Digit(place int) (int, *Failure) {
	for {
		if l.i >= len(l.p) {
			return 0, brokenf("the message ends inside a string")
		}
		c := l.p[l.i]
		l.i++
		if place == 0 && c <= ' ' {
			continue
		}
		d := base64Digit(int(c))
		switch {
		case d != base64Invalid:
			return d, nil
		case c == '"' && place == 0:
			return base64End, nil
		case c == '"' && place >= 2:
			l.i--
			return base64Invalid, nil
		case c != '\\':
			return base64Invalid, nil
		}
		u, f := l.escape()
		if f != nil {
			return 0, f
		}
		if u <= ' ' && place == 0 {
			return base64Blank, nil
		}
		return base64Digit(int(u)), nil
	}
}

// base64Text is TextNode.getBinaryValue.
func base64Text(s []byte) ([]byte, *Failure) {
	i := 0
	return decodeBase64(func(place int) (int, *Failure) {
		for place == 0 && i < len(s) && s[i] <= ' ' {
			i++
		}
		if i >= len(s) {
			return base64End, nil
		}
		i++
		return base64Digit(int(s[i-1])), nil
	})
}
