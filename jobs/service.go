package jobs

import (
	"path"
	"regexp"
	"runtime/debug"
	"strings"
)

// prefix is what comes before the names of the jobs.
func (b *builder) prefix() string {
	switch {
	case b.config.Prefix != nil:
		return *b.config.Prefix
	case b.config.Service != "":
		if strings.Contains(b.config.Service, ":") {
			b.refuse("service: %q has a colon, as prefixes end with; one may be given as prefix", b.config.Service)
		}
		return b.config.Service + ":"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	service := serviceOf(info.Path)
	if service == "" {
		b.refuse("the service has no name: its main package has the path %q", info.Path)
	}
	return service + ":"
}

var version = regexp.MustCompile(`^v\d+$`)

// serviceOf is the name of the service whose main package has that path, "" if that says nothing.
func serviceOf(main string) string {
	name := path.Base(main)
	if version.MatchString(name) {
		name = path.Base(path.Dir(main))
	}
	if name == "." || name == "/" || name == "command-line-arguments" {
		return ""
	}
	return name
}
