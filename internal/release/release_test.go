package main

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes files, by their path with slashes, into a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	rootMod  = "module example.com/top\n\ngo 1.26.0\n"
	storeMod = "module example.com/top/store\n\ngo 1.26.0\n\nrequire (\n\texample.com/client v1.4.0\n" +
		"\texample.com/top v0.0.0\n)\n\nreplace example.com/top => ..\n"
	toolMod = "module example.com/top/a-tool\n\ngo 1.26.0\n\nrequire (\n\texample.com/top v0.0.0\n" +
		"\texample.com/top/store v0.0.0 // indirect\n)\n\nreplace (\n\texample.com/top => ..\n" +
		"\texample.com/top/store => ../store\n)\n"
)

func repository(t *testing.T) string {
	t.Helper()
	return tree(t, map[string]string{
		"go.mod":                rootMod,
		"top.go":                "package top\n",
		"LICENSE":               "free\n",
		"store/go.mod":          storeMod,
		"store/store.go":        "package store\n",
		"a-tool/go.mod":         toolMod,
		"a-tool/main.go":        "package main\n\nfunc main() {}\n",
		"examples/go.mod":       "module example.com/top/examples\n",
		"internal/check/go.mod": "module example.com/top/internal/check\n",
	})
}

func modulesOf(t *testing.T, root string) []goModule {
	t.Helper()
	modules, err := published(root)
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

func TestPublished_PutsAModuleAfterWhatItRequires(t *testing.T) {
	var tags []string
	for _, m := range modulesOf(t, repository(t)) {
		tags = append(tags, m.tag("v1.2.3"))
	}
	if want := []string{"v1.2.3", "store/v1.2.3", "a-tool/v1.2.3"}; !slices.Equal(tags, want) {
		t.Errorf("tags %v, want %v", tags, want)
	}
}

func TestPublished_RefusesACircle(t *testing.T) {
	root := tree(t, map[string]string{
		"a/go.mod": "module example.com/a\n\nrequire example.com/b v0.0.0\n",
		"b/go.mod": "module example.com/b\n\nrequire example.com/a v0.0.0\n",
	})
	if modules, err := published(root); err == nil {
		t.Errorf("%v, want an error", modules)
	}
}

func TestPrepare_RequiresTheVersionAndReplacesNothing(t *testing.T) {
	root := repository(t)
	if err := prepare(root, "v1.2.3", modulesOf(t, root)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		".": rootMod,
		"store": "module example.com/top/store\n\ngo 1.26.0\n\nrequire (\n\texample.com/client v1.4.0\n" +
			"\texample.com/top v1.2.3\n)\n",
		"a-tool": "module example.com/top/a-tool\n\ngo 1.26.0\n\nrequire (\n\texample.com/top v1.2.3\n" +
			"\texample.com/top/store v1.2.3 // indirect\n)\n",
	} {
		got, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s/go.mod is\n%s\nwant\n%s", dir, got, want)
		}
	}
}

func TestPrepare_WritesNothingIfAModuleCannotBeReleased(t *testing.T) {
	const elsewhere = "module example.com/top/z\n\ngo 1.26.0\n\nrequire example.com/client v1.4.0\n\n" +
		"replace example.com/client => example.com/fork v1.4.1\n"
	root := tree(t, map[string]string{"go.mod": rootMod, "store/go.mod": storeMod, "z/go.mod": elsewhere})
	err := prepare(root, "v1.2.3", modulesOf(t, root))
	if err == nil || !strings.Contains(err.Error(), "example.com/fork") {
		t.Fatalf("%v, want an error that names the replacement", err)
	}
	if got, _ := os.ReadFile(filepath.Join(root, "store", "go.mod")); string(got) != storeMod {
		t.Errorf("store/go.mod was changed to\n%s", got)
	}
}

func TestProxy_HasTheFilesOfEachModuleAlone(t *testing.T) {
	root, out := repository(t), t.TempDir()
	if err := proxy(root, out, "v1.2.3", modulesOf(t, root)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"example.com/top":       {"LICENSE", "go.mod", "top.go"},
		"example.com/top/store": {"go.mod", "store.go"},
	} {
		archive, err := zip.OpenReader(filepath.Join(out, path, "@v", "v1.2.3.zip"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range archive.File {
			name := strings.TrimPrefix(f.Name, path+"@v1.2.3/")
			names = append(names, name)
			if name == "go.mod" && path != "example.com/top" {
				checkReplacesNothing(t, f)
			}
		}
		_ = archive.Close()
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s has %v, want %v", path, names, want)
		}
	}
}

func checkReplacesNothing(t *testing.T, f *zip.File) {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "replace") || !strings.Contains(string(text), "example.com/top v1.2.3") {
		t.Errorf("%s is\n%s", f.Name, text)
	}
}

func TestRun_RefusesWhatIsNoVersion(t *testing.T) {
	t.Chdir(repository(t))
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3+meta", "latest"} {
		if err := run([]string{"tags", version}); err == nil || !strings.Contains(err.Error(), `"`+version+`"`) {
			t.Errorf("version %q: %v, want an error that names it", version, err)
		}
	}
	if err := run([]string{"publish", "v1.2.3"}); err == nil {
		t.Error("an unknown command is accepted")
	}
}
