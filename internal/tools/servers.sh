#!/usr/bin/env bash
# Installs what the tests need beside Go: the test servers, and a C compiler for the race detector. Does nothing where
# everything is there. On Debian and Ubuntu as root it installs packages, elsewhere it says what is missing.

source "$(dirname "$0")/lib.sh"

# Debian keeps some programs off the path of users.
PATH=$PATH:/usr/sbin
for dir in /usr/lib/postgresql/*/bin; do
	PATH=$PATH:$dir
done

# command or file: what it is for: Debian packages
needs='
redis-server: Redis: redis-server
postgres: PostgreSQL: postgresql
mariadbd: MariaDB: mariadb-server-core
etcd: etcd: etcd-server
java: ZooKeeper, Hazelcast and the stand-in for MongoDB: default-jre-headless
/usr/share/java/zookeeper.jar: ZooKeeper: libzookeeper-java
javac: building the stand-in for MongoDB: default-jdk-headless
mvn: Hazelcast and the stand-in for MongoDB: maven
node: the stand-in for DynamoDB: nodejs
npm: building the stand-in for DynamoDB: npm
chromium: the status page in a browser: chromium fonts-dejavu-core
gcc: the race detector: gcc libc6-dev
'

# locate prints where a command or file of the table is.
locate() {
	case $1 in
	/*) [[ -e $1 ]] && echo "$1" ;;
	*) command -v "$1" ;;
	esac
}

missing=()
while IFS=: read -r item purpose debian; do
	[[ -n $item ]] || continue
	if found=$(locate "$item"); then
		echo "$found:$purpose"
	else
		echo "$item is missing:$purpose"
		# shellcheck disable=SC2206 # one word per package
		missing+=($debian)
	fi
done <<<"$needs"

# build makes the servers that no package has.
build() {
	local recipe failed=0
	for recipe in "$tools"/servers/*.sh; do
		[[ ! -e $recipe ]] || bash "$recipe" || failed=1
	done
	return $failed
}

if ! ((${#missing[@]})); then
	build
	exit
fi

install=(apt-get install --yes --no-install-recommends "${missing[@]}")
if ! command -v apt-get >/dev/null || ((EUID != 0)); then
	echo "not possible here, tests without their server are skipped; on Debian and Ubuntu run as root: ${install[*]}"
	build
	exit
fi

# A package would start its service, on the standard port. Tests start their own, on free ports.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
	trap 'rm -f $policy' EXIT
fi
export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive

# The lists may be absent or older than the archive.
"${install[@]}" || { apt-get update && "${install[@]}"; } || exit 1
build
