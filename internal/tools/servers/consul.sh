#!/usr/bin/env bash
# Builds Consul from its Go module. 1.15 is the last line of versions under the MPL that is complete as a module.

source "$(dirname "$0")/../lib.sh"

# consul builds the server into a folder, with the dependencies that the files beside this script pin.
consul() {
	local inputs=$tools/servers/consul module=$1/module failed=0
	mkdir "$module"
	cp "$inputs/go.mod.txt" "$module/go.mod"
	cp "$inputs/go.sum.txt" "$module/go.sum"
	CGO_ENABLED=0 go build -C "$module" -mod=readonly -trimpath -ldflags '-s -w' \
		-o "$1/consul" github.com/hashicorp/consul || failed=1
	rm -rf "$module"
	return $failed
}

build_server consul-1.15.4 consul
