package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/goleader/leader/backend/backendtest"
)

//go:embed backends.md.tmpl
var page string

// A matrix is what the page shows. A section is a rule or an ability, a row a case, a cell its outcome on a backend.
type matrix struct {
	Columns  []backendtest.Results
	Sections []*section
	Notes    []string // the reasons of what was skipped; the first has the number 1
}

type section struct {
	Title string
	Rows  []row
}

type row struct {
	Name, Says string
	Cells      []string
}

// render returns the page. A case that failed, or did not run, on one of the backends is an error.
func render(columns []backendtest.Results, cases iter.Seq2[string, string]) ([]byte, error) {
	m := matrix{Columns: columns}
	for name, rule := range cases {
		title, says, _ := strings.Cut(rule, ": ")
		r := row{Name: name, Says: escape(says)}
		for _, c := range columns {
			cell, err := m.cell(c, name)
			if err != nil {
				return nil, err
			}
			r.Cells = append(r.Cells, cell)
		}
		s := m.section(strings.ToUpper(title[:1]) + title[1:])
		s.Rows = append(s.Rows, r)
	}
	slices.SortStableFunc(m.Sections, func(a, b *section) int { return a.number() - b.number() })
	t, err := template.New("page").Parse(page)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, m)
	return text.Bytes(), err
}

// section returns the section with a title, a new one behind the others if there is none.
func (m *matrix) section(title string) *section {
	for _, s := range m.Sections {
		if s.Title == title {
			return s
		}
	}
	s := &section{Title: title}
	m.Sections = append(m.Sections, s)
	return s
}

// number is that of a rule; abilities come after all rules, in the order of their cases.
func (s *section) number() int {
	var n int
	if _, err := fmt.Sscanf(s.Title, "Rule %d,", &n); err != nil {
		return math.MaxInt
	}
	return n
}

// cell is the outcome of a case on a backend.
func (m *matrix) cell(c backendtest.Results, name string) (string, error) {
	switch o := c.Cases[name]; o.Verdict {
	case backendtest.Passed:
		return "✓", nil
	case backendtest.NotOffered:
		return "–", nil
	case backendtest.Skipped:
		return fmt.Sprintf("[%d](#notes)", m.note(o.Reason)), nil
	case backendtest.Failed:
		return "", fmt.Errorf("%s failed on %s", name, c.Backend)
	default:
		return "", fmt.Errorf("%s did not run on %s", name, c.Backend)
	}
}

// note returns the number of a reason.
func (m *matrix) note(reason string) int {
	reason = escape(reason)
	i := slices.Index(m.Notes, reason)
	if i < 0 {
		i = len(m.Notes)
		m.Notes = append(m.Notes, reason)
	}
	return i + 1
}

// escape keeps text from ending a cell of a table or a line of a list.
func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
