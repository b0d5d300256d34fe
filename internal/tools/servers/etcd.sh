#!/usr/bin/env bash
# Builds etcd from its Go module. Distributions have older lines of versions, which are tested beside it.

source "$(dirname "$0")/../lib.sh"

# etcd builds the server into a folder, with the dependencies that the files beside this script pin.
etcd() {
	local inputs=$tools/servers/etcd module=$1/module failed=0
	mkdir "$module"
	cp "$inputs/go.mod.txt" "$module/go.mod"
	cp "$inputs/go.sum.txt" "$module/go.sum"
	CGO_ENABLED=0 go build -C "$module" -mod=readonly -trimpath -ldflags '-s -w' \
		-o "$1/etcd" go.etcd.io/etcd/server/v3 || failed=1
	rm -rf "$module"
	return $failed
}

build_server etcd-3.7.3 etcd
