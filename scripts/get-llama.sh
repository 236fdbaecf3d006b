#!/usr/bin/env bash
# Puts stock llama.cpp v0.5.0 into third_party/llama.cpp (or DIR) and checks its tree hash.
# The sources come from the git bundle in an npm package pinned by package-lock.json; without npm, from
# llama.cpp's own repository. Nothing of the package is run, and no dependency of it is fetched.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly pinned_tree=fd570ef54b10ec5fecb739e7e04c8ce44a6f415a
readonly package=node-llama-cpp
readonly bundle_in_package=package/llama/gitRelease.bundle
readonly upstream=https://github.com/ggml-org/llama.cpp
readonly upstream_tag=v0.5.0

usage() {
    cat <<EOF
usage: scripts/get-llama.sh [--accept-tree-hash HASH] [DIR]
  DIR                      where to put it (default: third_party/llama.cpp)
  --accept-tree-hash HASH  take a tree with this git tree hash, too, and remember that in DIR
The pinned tree hash is $pinned_tree.
EOF
}

accepted_tree=
dir=
work=

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --accept-tree-hash)
            (($# > 1)) || usage_error "--accept-tree-hash needs a hash."
            accepted_tree=$2
            shift
            ;;
        --accept-tree-hash=*) accepted_tree=${1#*=} ;;
        -*) usage_error "get-llama.sh: unknown option '$1' (see --help)." ;;
        *)
            [[ -z $dir ]] || usage_error "get-llama.sh takes one directory, '$dir' and '$1' are two."
            dir=$1
            ;;
        esac
        shift
    done
    [[ -z $accepted_tree || $accepted_tree =~ ^[0-9a-f]{40}$ ]] ||
        usage_error "'$accepted_tree' is not a git tree hash (40 digits 0-9, a-f)."
    dir=${dir:-$llama_dir}
    dir=${dir%/}
}

# The hash is the pinned one, the one given, or one accepted before for this tree.
is_accepted() {
    local tree=$1 where=$2
    [[ $tree == "$pinned_tree" || $tree == "$accepted_tree" ||
        $tree == "$(git -C "$where" config --local --get sluice.acceptedTree || true)" ]]
}

remember_accepted() {
    local tree=$1 where=$2
    if [[ $tree != "$pinned_tree" ]]; then git -C "$where" config --local sluice.acceptedTree "$tree"; fi
}

tree_hash() { git -C "$1" rev-parse 'HEAD^{tree}'; }

wrong_tree() {
    local tree=$1 what=$2
    note "$what is not the pinned llama.cpp: its tree hash is $tree, the pinned one $pinned_tree."
    die "If that is what you want, say so: scripts/get-llama.sh --accept-tree-hash $tree"
}

# Succeeds when DIR holds a usable tree, fails when there is none, stops when it holds something else.
already_there() {
    [[ -e $dir ]] || return 1
    [[ -d $dir ]] || die "$dir is in the way: it is not a directory."
    [[ -n $(ls -A "$dir") ]] || return 1
    # Without its own .git, git would answer for the repository around it.
    [[ -e $dir/.git ]] || die "$dir is no git tree and cannot be checked; move it away and run this again."
    local tree changes
    tree=$(tree_hash "$dir") || die "git cannot read the tree in $dir; move it away and run this again."
    is_accepted "$tree" "$dir" || wrong_tree "$tree" "$dir"
    # No optional locks: a refreshed index would look like a change to llama.cpp's build.
    changes=$(git --no-optional-locks -C "$dir" status --porcelain) || die "git status failed in $dir."
    [[ -z $changes ]] ||
        die "$dir has local changes (git status there shows them): undo them or move the tree away."
    remember_accepted "$tree" "$dir"
}

# Prints "VERSION INTEGRITY" of the package as pinned by package-lock.json.
read_pin() {
    node -p 'const p = JSON.parse(require("fs").readFileSync(process.argv[1])).packages["node_modules/" + process.argv[2]];
             p.version + " " + p.integrity' "$sluice_root/package-lock.json" "$package"
}

# Prints the sha512 of a file as package-lock.json writes it.
integrity_of() {
    node -p '"sha512-" + require("crypto").createHash("sha512")
                 .update(require("fs").readFileSync(process.argv[1])).digest("base64")' "$1"
}

# Makes $work/tree from the pinned npm package. Fails if npm cannot fetch it, stops if its bytes are wrong.
from_npm() {
    have npm && have node && have tar || return 1
    local version integrity tarball actual
    read -r version integrity <<<"$(read_pin)"
    [[ $integrity == sha512-* ]] || die "package-lock.json does not pin $package by a sha512 integrity."
    note "fetching llama.cpp $upstream_tag ($package $version from npm, 36 MB)"
    if ! (cd "$sluice_root" && npm pack "$package@$version" --ignore-scripts --pack-destination "$work") \
        >"$work/npm.log" 2>&1; then
        tail -n 5 "$work/npm.log" >&2
        return 1
    fi
    tarball="$work/$package-$version.tgz"
    actual=$(integrity_of "$tarball")
    [[ $actual == "$integrity" ]] ||
        die "$package $version from npm is not the pinned one: its integrity is $actual, package-lock.json wants $integrity."
    tar -xzf "$tarball" -C "$work" "$bundle_in_package" || return 1
    clone "$work/$bundle_in_package"
}

from_upstream() {
    note "fetching llama.cpp $upstream_tag ($upstream)"
    GIT_TERMINAL_PROMPT=0 clone --depth 1 --branch "$upstream_tag" "$upstream"
}

clone() {
    rm -rf "$work/tree"
    # Line endings as committed, whatever the user's settings: the tree must read as clean everywhere.
    git -c advice.detachedHead=false -c http.lowSpeedLimit=1000 -c http.lowSpeedTime=60 \
        clone --quiet --config core.autocrlf=false "$@" "$work/tree" >&2
}

install_tree() {
    local tree
    tree=$(tree_hash "$work/tree")
    is_accepted "$tree" "$work/tree" || wrong_tree "$tree" "the llama.cpp that came"
    remember_accepted "$tree" "$work/tree"
    git -C "$work/tree" remote remove origin
    # -T: never into a directory that another run has put there meanwhile.
    mv -T "$work/tree" "$dir" 2>/dev/null || already_there || die "could not move llama.cpp to $dir."
}

main() {
    parse_arguments "$@"
    have git || die "git is needed to fetch and check llama.cpp."
    if already_there; then return; fi

    local parent
    parent=$(dirname "$dir")
    mkdir -p "$parent" || die "could not make the directory $parent."
    find "$parent" -maxdepth 1 -type d -name '.llama.cpp.*' -mmin +120 -exec rm -rf {} + # left by killed runs
    work=$(mktemp -d "$parent/.llama.cpp.XXXXXX")
    trap 'rm -rf "$work"' EXIT

    from_npm || from_upstream ||
        die "llama.cpp could not be fetched, neither from npm ($package) nor from $upstream; put a tree of $upstream_tag in $dir."
    install_tree
    note "llama.cpp $upstream_tag is in $dir"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
