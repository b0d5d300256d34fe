#!/usr/bin/env bash
# Acts as an outside user of what a release would publish: the modules of the working tree, at a version of their own,
# fetched from a module proxy in a folder. Each is got into an empty module of its own, and all of its packages are
# built there; commands are installed and run. Then somebody new follows docs/getting-started.md. Ends with one line for
# each module and for the guide.

source "$(dirname "$0")/lib.sh"

# A version that nobody has seen: the module cache and the go command believe that a version never changes.
version=v0.0.0-rehearsal.$(date +%s)
work=$(mktemp -d)
cache=$(go env GOMODCACHE)

# forget takes the rehearsed versions out of the module cache, whose files are read-only.
forget() {
	local found
	find "$cache" -depth -path "*goleader/leader*$version*" 2>/dev/null | while read -r found; do
		chmod -R u+w "$found" 2>/dev/null
		rm -rf "$found"
	done
	rm -rf "$work"
}
trap forget EXIT

release=$work/release
go build -C internal/release -o "$release" .
"$release" proxy "$version" "$work/proxy"
modules=$("$release" modules)

GOPROXY="file://$work/proxy,$(go env GOPROXY)"
export GOPROXY GONOSUMDB=github.com/goleader GOFLAGS=-mod=mod GOWORK=off GOBIN=$work/bin

# outsider gets a module and builds what it offers.
outsider() {
	local module=$1 package
	mkdir "$work/outsider"
	cd "$work/outsider"
	go mod init example.com/outsider
	go get "$module@$version"
	{
		printf 'package main\n\n'
		go list -f '{{if and (ne .Name "main") (not .DepsErrors)}}{{.ImportPath}}{{end}}' "$module/..." |
			grep -v /internal/ | while read -r package; do
			printf 'import _ "%s"\n' "$package"
		done
		printf '\nfunc main() {}\n'
	} >main.go
	go build -o outsider .
	./outsider
	for package in $(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' "$module/..." | grep -v /internal/); do
		go install "$package@$version"
		"$GOBIN/$(basename "$package")" --help
	done
}

# newcomer does what docs/getting-started.md says, word by word: its commands, and its program in main.go. Afterwards each
# tick must have been reported once, and both processes must have reported.
newcomer() {
	mkdir "$work/newcomer"
	cd "$work/newcomer"
	awk '
		/^```sh$/ { copies = 1; next }
		/^```go$/ && !program { program = copies = 1; print "cat >main.go <<\"END\""; next }
		/^```$/ && copies { if (program == 1) { program = 2; print "END" } copies = 0; next }
		copies' "$guide" >steps.sh
	bash -e steps.sh | tee ticks
	[[ $(grep -c '^report of' ticks) -ge 5 ]] || { echo "too few reports" && return 1; }
	[[ -z $(awk '{ print $3 }' ticks | sort | uniq -d) ]] || { echo "a tick was reported twice" && return 1; }
}
guide=$PWD/docs/getting-started.md

failed=0
for module in $modules; do
	state=ok
	(outsider "$module") >"$work/log" 2>&1 || { state=FAIL && failed=1 && cat "$work/log"; }
	rm -rf "$work/outsider"
	printf '%-4s  %s\n' "$state" "$module"
done
state=ok
(newcomer) >"$work/log" 2>&1 || { state=FAIL && failed=1 && cat "$work/log"; }
printf '%-4s  %s\n' "$state" docs/getting-started.md
exit $failed
