#!/usr/bin/env bash
# Builds the stand-in for DynamoDB, which no package has: dynalite, with the libraries that the lock file beside this
# script names, and the program beside it that starts it. Nothing of theirs is run while they are installed.

source "$(dirname "$0")/../lib.sh"

# dynalite puts the program and its libraries into the folder node_modules.
dynalite() {
	cp "$tools"/servers/dynalite/* "$1" &&
		npm ci --prefix "$1" --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
}

for program in node npm; do
	if ! command -v "$program" >/dev/null; then
		echo "not possible here without $program: the stand-in for DynamoDB"
		exit
	fi
done
build_server dynalite-4.0.0 dynalite
