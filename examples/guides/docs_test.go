package guides

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/internal/testserver"
)

const top = "../.."

// block is a block of code in a page.
type block struct{ page, language, text string }

// pages returns the texts of the repository for people, by their path from its top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	walk(t, ".md", func(path, text string) { texts[path] = text })
	if len(texts) < 10 {
		t.Fatalf("only %d pages found", len(texts))
	}
	return texts
}

// walk calls f with every file of the repository whose name ends in suffix.
func walk(t *testing.T, suffix string, f func(path, text string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(path)))
		f(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var fenced = regexp.MustCompile("(?s)(?:^|\n)```([a-z]*)\n(.*?\n)```(?:\n|$)")

func blocks(t *testing.T, language string) []block {
	t.Helper()
	var list []block
	for page, text := range pages(t) {
		for _, m := range fenced.FindAllStringSubmatch(text, -1) {
			if m[1] == language {
				list = append(list, block{page, m[1], m[2]})
			}
		}
	}
	return list
}

func isProgram(b block) bool { return strings.HasPrefix(b.text, "package main\n") }

// squeezed is code without its indentation and empty lines.
func squeezed(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestDocs_EveryPieceOfCodeIsCompiled(t *testing.T) {
	var sources []string
	walk(t, ".go", func(_, text string) { sources = append(sources, squeezed(text)) })
	for _, b := range blocks(t, "go") {
		if isProgram(b) {
			continue
		}
		if !slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, squeezed(b.text)) }) {
			t.Errorf("%s: no Go file of the repository contains\n%s", b.page, b.text)
		}
	}
}

func TestDocs_EveryProgramRuns(t *testing.T) {
	programs := slices.DeleteFunc(blocks(t, "go"), func(b block) bool { return !isProgram(b) })
	if len(programs) == 0 {
		t.Fatal("there is no program in any page")
	}
	for _, b := range programs {
		t.Run(strings.ReplaceAll(b.page, "/", "_"), func(t *testing.T) {
			code := b.text
			if strings.Contains(code, "localhost:6379") {
				code = strings.ReplaceAll(code, "localhost:6379", testserver.Redis(t).Addr())
			}
			run(t, code)
		})
	}
}

// run builds a program in this module and runs it in a folder of its own. It has to end by itself, or to end well when it
// is interrupted after some seconds.
func run(t *testing.T, code string) {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.CommandContext(ctx, binary)
	program.Dir = dir
	var out strings.Builder
	program.Stdout, program.Stderr = &out, &out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	enough := time.AfterFunc(8*time.Second, func() { _ = program.Process.Signal(os.Interrupt) })
	defer enough.Stop()
	if err := program.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if out.Len() == 0 {
		t.Error("the program said nothing")
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestDocs_EveryLinkLeadsSomewhere(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			path := filepath.Join(top, filepath.Dir(filepath.FromSlash(page)), filepath.FromSlash(target))
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
			}
		}
	}
}

var testName = regexp.MustCompile(`\b(Test[A-Z]\w*|[A-Z][a-z]+\w*_\w+|[A-Z][a-z]+[A-Z]\w+)\b`)

func TestDocs_EveryFailureHasItsTest(t *testing.T) {
	var tests strings.Builder
	walk(t, ".go", func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "backend/backendtest/") {
			tests.WriteString(text)
		}
	})
	rows := 0
	for line := range strings.Lines(pages(t)["docs/failures.md"]) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") || strings.Contains(line, "tested by") {
			continue
		}
		rows++
		names := testName.FindAllString(cells[3], -1)
		for _, name := range names {
			if !strings.Contains(tests.String(), `"`+name+`"`) && !strings.Contains(tests.String(), "func "+name+"(") {
				t.Errorf("docs/failures.md: there is no test %s", name)
			}
		}
		if len(names) == 0 && !strings.Contains(cells[3], "package comment") && !strings.Contains(cells[3], "examples/") &&
			!strings.Contains(cells[3], "tests of each backend") {
			t.Errorf("docs/failures.md: no test is named in %s", line)
		}
	}
	if rows < 10 {
		t.Errorf("docs/failures.md has %d rows", rows)
	}
}
