#!/usr/bin/env bash
# Runs the conformance test of every backend and makes docs/backends.md from the results. Every server is required: a
# page with a backend missing would be wrong.

source "$(dirname "$0")/lib.sh"

bash "$tools/servers.sh"

export LEADER_REQUIRE=${LEADER_REQUIRE-all}
LEADER_MATRIX=$(mktemp -d)
export LEADER_MATRIX
trap 'rm -rf "$LEADER_MATRIX"' EXIT

imports='{{.ImportPath}} {{.TestImports}} {{.XTestImports}}'
list=$(modules "")
for module in $list; do
	[[ $module != internal/* ]] || continue # the same dialects through other drivers
	has_packages "$module" || continue
	packages=$(go list -C "$module" -f "$imports" ./... | sed -n 's,^\([^ ]*\) .*leader/backend/backendtest[] ].*,\1,p')
	# shellcheck disable=SC2086 # import paths, one word each
	[[ -z $packages ]] || go test -C "$module" -count=1 -timeout=15m -run 'Conformance$' $packages
done

go run ./internal/matrix -results "$LEADER_MATRIX" -out docs/backends.md
