#!/usr/bin/env bash
# Makes a release of all modules: release.sh v1.2.3. Checks that the tree is clean, that CHANGELOG.md has the version,
# that nothing which the last release offered is gone (from v1 on; before, it is shown), and that outside users can build
# it. Then it commits go.mod files without replacements on a branch of their own and sets the tags there. It pushes
# nothing, and leaves the branch that was checked out as it was.

source "$(dirname "$0")/lib.sh"

version=${1:-}
work=$(mktemp -d)
branch=
tidy_up() {
	[[ -z $branch ]] || git switch --quiet "$branch"
	[[ ! -e $work/old ]] || git worktree remove --force "$work/old"
	rm -rf "$work"
}
trap tidy_up EXIT
release=$work/release
go build -C internal/release -o "$release" .
tags=$("$release" tags "$version")

fail() {
	echo "release: $*" >&2
	exit 1
}

[[ -z $(git status --porcelain) ]] || fail "the working tree has changes: commit them first"
grep -q "^## \[*${version#v}\]*\( \|$\)" CHANGELOG.md || fail "CHANGELOG.md has no section \"## ${version#v}\""
for tag in $tags; do
	! git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null || fail "the tag $tag is there already"
done

# compare shows what a module no longer offers.
compare() {
	local dir=$1 path
	[[ -f $work/old/$dir/go.mod ]] || return 0
	path=$(go list -C "$dir" -m) &&
		(cd "$work/old/$dir" && "$work/apidiff" -m -w "$work/old.api" "$path" 2>/dev/null) &&
		(cd "$dir" && "$work/apidiff" -m -w "$work/new.api" "$path" 2>/dev/null) &&
		"$work/apidiff" -m -incompatible "$work/old.api" "$work/new.api" 2>/dev/null
}

last=$(git tag --list 'v[0-9]*' --sort=-version:refname | head -n 1)
if [[ -n $last ]]; then
	go build -C internal/release -o "$work/apidiff" golang.org/x/exp/cmd/apidiff
	# The commit before the tagged one has the replacements, so it builds from the working tree alone.
	git worktree add --quiet --detach "$work/old" "$last^"
	gone=
	for dir in $("$release" folders); do
		lines=$(compare "$dir") || fail "$dir cannot be compared with $last"
		[[ -z $lines ]] || gone+="$dir"$'\n'"$lines"$'\n'
	done
	[[ -z $gone ]] || printf 'no longer as in %s:\n%s' "$last" "$gone"
	[[ -z $gone || $version == v0.* || ${version%%.*} != "${last%%.*}" ]] ||
		fail "a version that is not compatible with $last needs another major version"
fi

[[ -n ${LEADER_REHEARSED:-} ]] || bash "$tools/rehearse.sh"

here=$(git symbolic-ref --quiet --short HEAD) || fail "check out a branch first"
git switch --quiet --create "release-$version"
branch=$here
"$release" prepare "$version"
git commit --quiet --all --message "Release $version"
for tag in $tags; do
	git tag --annotate --message "$tag" "$tag"
done
printf 'to publish, in this order:\n'
for tag in $tags; do
	printf '\tgit push origin %s\n' "$tag"
done
