#!/usr/bin/env bash
# Checks every module, or the one given, without running it: formatting, tidy go.mod, vet, golangci-lint, and that the
# libraries build for Linux, macOS and Windows. Goes on over failures and ends with one line for each module.

source "$(dirname "$0")/lib.sh"

golangci=$(tool_path golangci-lint)

# step runs a command in the module and notes its name if it fails.
step() {
	local name=$1
	shift
	(cd "$module" && "$@") || broken+=" $name"
}

# errexit is off inside a step, so failures within these functions are handled one by one.

formatted() {
	local diff
	diff=$("$golangci" fmt --diff ./...) || { printf '%s\n' "$diff" && return 1; }
	[[ -z $diff ]] || { printf '%s\nto format: make fmt\n' "$diff" && return 1; }
}

requires_nothing() {
	[[ $(go list -m all) == "$(go list -m)" ]] || { echo "the root module must require nothing" && return 1; }
}

builds_for() {
	export GOOS=$1 CGO_ENABLED=0
	local libraries
	libraries=$(go list -f '{{if and (ne .Name "main") .GoFiles}}{{.ImportPath}}{{end}}' ./...) || return 1
	# shellcheck disable=SC2086 # import paths, one word each
	[[ -z $libraries ]] || go build $libraries
}

summary=()
failed=0
list=$(modules "${1:-}")
for module in $list; do
	printf '\n== %s\n' "$module"
	begin=$SECONDS
	broken=
	step tidy go mod tidy -diff
	[[ $module != . ]] || step require requires_nothing
	if has_packages "$module"; then
		step format formatted
		step vet go vet ./...
		step lint "$golangci" run --allow-parallel-runners ./...
		for os in linux darwin windows; do
			step "$os" builds_for $os
		done
	fi
	state=ok
	[[ -z $broken ]] || state=FAIL failed=1
	summary+=("$(printf '%-4s  %-28s %4ds %s' $state "$module" $((SECONDS - begin)) "$broken")")
done

printf '\n'
printf '%s\n' "${summary[@]}"
exit $failed
