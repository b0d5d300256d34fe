# shellcheck shell=bash
# What the scripts of this folder share. Sourced; leaves the working folder at the top of the repository.

set -euo pipefail # and bash 3.2, which macOS has

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$tools/../.."

# modules prints the folder of every module, the root as ".", or only the one given.
modules() {
	if [[ -n ${1:-} ]]; then
		local module=${1%/}
		[[ -f $module/go.mod ]] || { echo "no module in $module" >&2 && return 1; }
		echo "$module"
		return
	fi
	find . -name go.mod -not -path '*/testdata/*' -not -path './.git/*' | sed -e 's,/go\.mod$,,' -e 's,^\./,,' | sort
}

# has_packages is false for a module of tools alone. It is true for a broken one, so that the next step tells.
has_packages() { [[ $(go list -C "$1" -e ./... 2>&1) != *'matched no packages'* ]]; }

# tool_path prints where a tool of go.mod is built. The binaries are kept beside Go's build cache, because linking them
# anew takes longer than most runs.
tool_path() {
	local key dir
	key=$(cat "$tools/go.mod" "$tools/go.sum" <(go version) | cksum | tr ' ' -)
	dir=$(dirname "$(go env GOCACHE)")/leader-tools/$key
	if [[ ! -x $dir/$1 ]]; then
		echo "building the tools of internal/tools (once, takes minutes)" >&2
		mkdir -p "$dir"
		local new
		new=$(mktemp -d "$dir/new.XXXXXX")
		go build -C "$tools" -o "$new/" tool || { rm -rf "$new" && return 1; }
		mv "$new"/* "$dir/"
		rmdir "$new"
	fi
	echo "$dir/$1"
}

# server_dir prints the folder of a test server that is built here, by its name and version: "consul-1.15.4". It is the
# counterpart of built in internal/testserver, and outside the repository, so that a fresh clone need not build again.
server_dir() {
	local cache=${XDG_CACHE_HOME:-$HOME/.cache}
	[[ $(uname) != Darwin ]] || cache=$HOME/Library/Caches
	echo "$cache/leader-servers/$1"
}

# build_server makes the folder of a server once: it calls a function with a new empty folder, and keeps what that made
# only if it succeeded. errexit is off inside that function. Called once in a script.
build_server() {
	local dir new
	dir=$(server_dir "$1")
	if [[ -d $dir ]]; then
		echo "$dir"
		return
	fi
	echo "building $1 (once)"
	mkdir -p "$(dirname "$dir")"
	new=$(mktemp -d "$dir.XXXXXX")
	# shellcheck disable=SC2064 # The folder of now, whether it fails or is interrupted.
	trap "rm -rf '$new'" EXIT
	"$2" "$new" || return 1
	[[ -d $dir ]] || mv "$new" "$dir" # Another run may have been faster.
	echo "$dir"
}
