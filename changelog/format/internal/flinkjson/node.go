package flinkjson

import "unsafe"

// Node is a JsonNode. Its text and its name live as long as the batch and the payload do, its kids as long as the message is read.
//
// A message can have a node for every two of its bytes, so a node is as small as it can be: 24 bytes.
type Node struct {
	data    unsafe.Pointer // of a scalar: its text; of an array or object: its kids, or a *wideObject
	name    unsafe.Pointer // of a member of an object
	n       uint32         // how many bytes or kids data points to
	nameLen uint16         // at most maxName
	tok     token          // tokObject, tokArray, tokString, tokInt, tokFloat, tokTrue, tokFalse, tokNull; noToken: a MissingNode
	flags   nodeFlags
}

type nodeFlags uint8

const (
	nodeLossy nodeFlags = 1 << iota // of a number: a double does not hold what stood in the message
	nodeTwice                       // of an object: a member came twice; the last one stands, at the first one's place
	nodeWide                        // of an object: data is a *wideObject
)

// wideObject is what the node of an object of many members points to.
type wideObject struct {
	kids []Node
	at   map[string]int // name to kid
}

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
func (n *Node) Text() []byte {
	if n.holds() {
		return nil
	}
	return unsafe.Slice((*byte)(n.data), n.n)
}

// Kids are the members of an object or the elements of an array, in their order.
func (n *Node) Kids() []Node {
	switch {
	case !n.holds():
		return nil
	case n.flags&nodeWide != 0:
		return (*wideObject)(n.data).kids
	}
	return unsafe.Slice((*Node)(n.data), n.n)
}

// Name is the name of a member of an object.
func (n *Node) Name() []byte { return unsafe.Slice((*byte)(n.name), n.nameLen) }

// Twice reports an object of which a member came twice; the last one stands, at the first one's place.
func (n *Node) Twice() bool { return n.flags&nodeTwice != 0 }

// holds reports an array or an object.
func (n *Node) holds() bool { return n.tok == tokObject || n.tok == tokArray }

func (n *Node) setText(s []byte) { n.data, n.n = unsafe.Pointer(unsafe.SliceData(s)), uint32(len(s)) }

func (n *Node) setName(s []byte) {
	n.name, n.nameLen = unsafe.Pointer(unsafe.SliceData(s)), uint16(len(s))
}

// setKids makes the nodes those that an array or object has; at is their index by name, or nil.
func (n *Node) setKids(kids []Node, at map[string]int) {
	if at != nil {
		n.data, n.flags = unsafe.Pointer(&wideObject{kids, at}), n.flags|nodeWide
		return
	}
	n.data, n.n = unsafe.Pointer(unsafe.SliceData(kids)), uint32(len(kids))
}

// member returns the member called name of an object, or nil. likely is where it is if the writer keeps the table's order.
func (n *Node) member(name string, likely int) *Node {
	kids := n.Kids()
	if likely < len(kids) && string(kids[likely].Name()) == name {
		return &kids[likely]
	}
	if n.flags&nodeWide != 0 {
		if k, ok := (*wideObject)(n.data).at[name]; ok {
			return &kids[k]
		}
		return nil
	}
	for i := range kids {
		if string(kids[i].Name()) == name {
			return &kids[i]
		}
	}
	return nil
}

// nodeStack has the nodes of the arrays and objects that are being read. It grows by blocks, since a slice that grows takes several times
// its memory on the way.
type nodeStack struct {
	blocks [][]Node // each of nodeBlock nodes
	n      int
}

const nodeBlock = 256

func (s *nodeStack) at(i int) *Node { return &s.blocks[i/nodeBlock][i%nodeBlock] }

func (s *nodeStack) push(n Node) {
	if s.n == len(s.blocks)*nodeBlock {
		s.blocks = append(s.blocks, make([]Node, nodeBlock))
	}
	*s.at(s.n) = n
	s.n++
}

// popTo moves the nodes above base to dst, which has as many.
func (s *nodeStack) popTo(dst []Node, base int) {
	for i := base; i < s.n; {
		from := s.blocks[i/nodeBlock][i%nodeBlock : min(nodeBlock, i%nodeBlock+s.n-i)]
		i += copy(dst[i-base:], from)
		clear(from)
	}
	s.n = base
}

// treeMemory is where the nodes of one message are.
type treeMemory struct {
	stack nodeStack
	chunk []Node
	used  int // of chunk
	left  int // nodes that the message may still have
}

const (
	nodeChunk  = 128
	keptNodes  = 1024
	keptBlocks = keptNodes / nodeBlock
)

// pop moves the nodes above base from the stack to a place where they stay.
func (m *treeMemory) pop(base int) []Node {
	n := m.stack.n - base
	var to []Node
	if n > nodeChunk {
		to = make([]Node, n)
	} else {
		if m.used+n > len(m.chunk) {
			m.chunk, m.used = make([]Node, nodeChunk), 0 // the old chunk lives on through its nodes
		}
		to = m.chunk[m.used : m.used+n : m.used+n]
		m.used += n
	}
	m.stack.popTo(to, base)
	return to
}

// reset makes m ready for the next message. One huge message must not hold its memory for ever.
func (m *treeMemory) reset() {
	if len(m.stack.blocks) > keptBlocks {
		m.stack = nodeStack{}
	}
	for _, b := range m.stack.blocks {
		clear(b)
	}
	m.stack.n = 0
	clear(m.chunk[:m.used])
	m.used = 0
}
