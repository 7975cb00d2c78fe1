package flinkjson

// NodeKind says what a [Node] is.
type NodeKind uint8

const (
	NodeObject NodeKind = iota
	NodeArray
	NodeString
	NodeInt   // a number without fraction and exponent
	NodeFloat // another number; its text is that of a double, or of a BigDecimal where a column is a DECIMAL
	NodeTrue
	NodeFalse
	NodeNull
)

// Kind says what n is.
func (n *Node) Kind() NodeKind {
	switch n.tok {
	case tokObject:
		return NodeObject
	case tokArray:
		return NodeArray
	case tokString:
		return NodeString
	case tokInt:
		return NodeInt
	case tokFloat:
		return NodeFloat
	case tokTrue:
		return NodeTrue
	case tokFalse:
		return NodeFalse
	}
	return NodeNull
}

// Text is the text of a scalar. It lives as long as the batch and the payload do.
func (n *Node) Text() []byte { return n.text }

// Kids are the members of an object or the elements of an array, in their order.
func (n *Node) Kids() []Node { return n.kids }

// Name is the name of a member of an object.
func (n *Node) Name() []byte { return n.name }

// Twice reports an object of which a member came twice; the last one stands, at the first one's place.
func (n *Node) Twice() bool { return n.twice }
