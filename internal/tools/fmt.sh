#!/usr/bin/env bash
# Formats the Go files of every module, or of the one given.

source "$(dirname "$0")/lib.sh"

golangci=$(tool_path golangci-lint)
list=$(modules "${1:-}")
for module in $list; do
	! has_packages "$module" || (cd "$module" && "$golangci" fmt ./...)
done
