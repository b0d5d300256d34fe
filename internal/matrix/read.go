package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goleader/leader/backend/backendtest"
)

// read returns the results in a folder by the name of the backend.
func read(folder string) ([]backendtest.Results, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no results in %s", folder)
	}
	columns := make([]backendtest.Results, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &columns[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	slices.SortFunc(columns, func(a, b backendtest.Results) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Package, b.Package))
	})
	return columns, nil
}
