#!/usr/bin/env bash
# Builds the stand-in for MongoDB, which no package has: mongo-java-server with its H2 backend, which keeps the data in
# a file, and the class beside this script that starts it.

source "$(dirname "$0")/../lib.sh"

# mongo puts the libraries into the folder lib and compiles the class beside it.
mongo() {
	local inputs=$tools/servers/mongo
	mvn --batch-mode --quiet -Dstyle.color=never --file "$inputs/pom.xml" \
		dependency:copy-dependencies "-DoutputDirectory=$1/lib" &&
		javac --release 11 -d "$1" -cp "$1/lib/*" "$inputs/MongoStandIn.java"
}

for program in mvn javac; do
	if ! command -v "$program" >/dev/null; then
		echo "not possible here without $program: the stand-in for MongoDB"
		exit
	fi
done
build_server mongo-java-server-1.47.0 mongo
