#!/usr/bin/env bash
# Builds kube-apiserver, which no package has. It is run over the etcd of the same tests.

source "$(dirname "$0")/../lib.sh"

# build compiles the server in a module that requires it: its own go.mod replaces the staging modules by folders.
build() {
	cp "$tools/servers/kube/go.mod.txt" "$1/go.mod" &&
		cp "$tools/servers/kube/go.sum.txt" "$1/go.sum" &&
		go build -C "$1" -trimpath -ldflags '-s -w' -o kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
}

build_server kube-apiserver-1.37.2 build
