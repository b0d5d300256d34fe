package raftleader

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestClock_OfTheWall_IsReadOnlyToBeShown: nodes whose clocks are an hour apart do the same. What a time is taken for
// beside, differences of the monotonic clock, they have no part in.
func TestClock_OfTheWall_IsReadOnlyToBeShown(t *testing.T) {
	allowed := []string{
		"take",   // the epoch of a new cluster, from which fences are counted
		"decide", // Holder.Since
	}
	var files []string
	for _, pattern := range []string{"*.go", "internal/*/*.go"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			name := "a variable"
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			for range wallReadings(decl) {
				found = append(found, name)
				if !slices.Contains(allowed, name) {
					t.Errorf("%s: %s reads the wall clock", file, name)
				}
			}
		}
	}
	if len(found) != len(allowed) {
		t.Errorf("the wall clock is read by %v, want %v", found, allowed)
	}
}

// wallReadings returns the calls of methods of a time that tell what the wall clock shows.
func wallReadings(decl ast.Node) []string {
	tells := []string{
		"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Format", "AppendFormat", "Date", "Clock", "UTC", "Local", "Hour",
		"Minute", "Second", "Nanosecond", "MarshalBinary", "MarshalText",
	}
	var found []string
	ast.Inspect(decl, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(tells, selector.Sel.Name) {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && of.Name == "time" {
			return true // makes a time and reads no clock
		}
		found = append(found, selector.Sel.Name)
		return true
	})
	return found
}
