package flinksink

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const maxLines = 600

// sources calls f for each Go file of the module.
func sources(t *testing.T, f func(name string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil {
			f(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreShort(t *testing.T) {
	sources(t, func(name string, text []byte) {
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines; split it by concept before %d", name, n, maxLines)
		}
	})
}

// No init, and no package variable that changes: what a package does depends on what it is given, and two users of it in one process
// do not meet.
func TestNoHiddenState(t *testing.T) {
	packages := map[string][]*ast.File{}
	fset := token.NewFileSet()
	sources(t, func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Error(err)
			return
		}
		packages[filepath.Dir(name)] = append(packages[filepath.Dir(name)], f)
	})
	for _, files := range packages {
		for _, b := range hiddenState(fset, files) {
			t.Error(b)
		}
	}
	if len(packages) < 10 {
		t.Fatalf("%d packages found; the law has seen too little", len(packages))
	}
}

// hiddenState lists what breaks the law in one package. It sees assignments and not what a pointer handed elsewhere is used for.
func hiddenState(fset *token.FileSet, files []*ast.File) (breaches []string) {
	report := func(at token.Pos, format string, args ...any) {
		breaches = append(breaches, fmt.Sprintf("%s: %s", fset.Position(at), fmt.Sprintf(format, args...)))
	}
	vars := map[string]*ast.ValueSpec{}
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				report(fn.Pos(), "func init: things plug in by being passed")
			}
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if name.Name == "_" {
						continue
					}
					vars[name.Name] = spec
					var value ast.Expr
					if i < len(spec.Values) {
						value = spec.Values[i]
					}
					switch {
					case name.IsExported() && !isCall(value, "errors", "New"):
						report(name.Pos(), "exported variable %s: anybody can change it; only errors.New is fine", name.Name)
					case stateful(spec.Type) || stateful(value):
						report(name.Pos(), "package variable %s is made to change", name.Name)
					case value == nil && !isFS(spec.Type): // an embed.FS gets its value from the compiler
						report(name.Pos(), "package variable %s has no value, so it must get one later", name.Name)
					}
				}
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			var changed []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					changed = n.Lhs
				}
			case *ast.IncDecStmt:
				changed = []ast.Expr{n.X}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy"}, id.Name) && len(n.Args) > 0 {
					changed = n.Args[:1]
				}
			}
			for _, e := range changed {
				id := root(e)
				if id == nil {
					continue
				}
				spec, ok := vars[id.Name]
				// An identifier that the parser resolved to something else is a local one of the same name.
				if ok && (id.Obj == nil || id.Obj.Decl == spec) {
					report(e.Pos(), "package variable %s is changed", id.Name)
				}
			}
			return true
		})
	}
	return breaches
}

// root is the variable that an assignable expression is part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

func isCall(e ast.Expr, pkg, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func isFS(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "FS" {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == "embed"
}

// stateful reports whether a type or a value is one of sync or sync/atomic, or a channel.
func stateful(e ast.Expr) bool {
	if e == nil {
		return false
	}
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic") {
				found = true
			}
		case *ast.ChanType:
			found = true
		case *ast.FuncLit:
			return false
		}
		return !found
	})
	return found
}

// The law must be able to fail.
func TestNoHiddenState_Catches(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`var ErrX = errors.New("x")`, ""},
		{`var names = []string{"a"}; func f() string { return names[0] }`, ""},
		{`var n = 1; func f() { n := 2; n = 3; _ = n }`, ""},
		{`func init() {}`, "func init"},
		{`type T struct{}; func (T) init() {}`, ""},
		{`var Names = []string{"a"}`, "exported variable Names"},
		{`var n int`, "has no value"},
		{`var n = 1; func f() { n = 2 }`, "package variable n is changed"},
		{`var n = 1; func f() { n++ }`, "package variable n is changed"},
		{`var m = map[string]int{}; func f() { m["a"] = 1 }`, "package variable m is changed"},
		{`var m = map[string]int{}; func f() { delete(m, "a") }`, "package variable m is changed"},
		{`var s = []int{1}; func f() { copy(s[:], []int{2}) }`, "package variable s is changed"},
		{`var p = &T{}; type T struct{ n int }; func f() { p.n = 1 }`, "package variable p is changed"},
		{`var files embed.FS`, ""},
		{`var mu sync.Mutex`, "made to change"},
		{`var pool = &sync.Pool{}`, "made to change"},
		{`var c = make(chan int)`, "made to change"},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x; "+c.src, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(hiddenState(fset, []*ast.File{f}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.src, got, c.want)
		}
	}
}
