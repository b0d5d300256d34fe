#!/usr/bin/env bash
# Fetches Hazelcast, which no package has, from its Maven artifact: one library, under the Apache licence.

source "$(dirname "$0")/../lib.sh"

# hazelcast puts the library into the folder lib. Tests write the members' configuration themselves.
hazelcast() {
	mvn --batch-mode --quiet -Dstyle.color=never --file "$tools/servers/hazelcast/pom.xml" \
		dependency:copy-dependencies "-DoutputDirectory=$1/lib"
}

if ! command -v mvn >/dev/null; then
	echo "not possible here without mvn: Hazelcast"
	exit
fi
build_server hazelcast-5.5.0 hazelcast
