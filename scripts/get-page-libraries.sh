#!/usr/bin/env bash
# Puts the JavaScript libraries of the pages (`sluice report`, `sluice routes`, the flash panel) into
# third_party/page-libraries, as apps/report/package-lock.json pins them. Nothing of them is run.
# Without them Sluice builds all the same; it then says that this build has no pages.
# With --tests also what drives a browser in the tests of the panel, into third_party/page-tools, as
# tests/flash/package-lock.json pins it. Without that those tests are skipped.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: scripts/get-page-libraries.sh [--tests]"; }

work=
trap 'rm -rf ${work:+"$work"}' EXIT

# The folder keeps the lock file that it was made from.
is_there() { cmp -s "$1/package-lock.json" "$2/package-lock.json"; } # pins folder

# Puts what package-lock.json in the first folder pins into the second one.
fetch() {
    local pins=$1 folder=$2 what=$3 parent
    if is_there "$pins" "$folder"; then return; fi
    have npm || die "npm is needed to fetch $what."
    parent=$(dirname "$folder")
    mkdir -p "$parent" || die "could not make the directory $parent."
    work=$(mktemp -d "$parent/.page-libraries.XXXXXX")
    note "fetching $what (from npm)"
    cp "$pins/package.json" "$pins/package-lock.json" "$work"
    # npm checks what comes against the sha512 integrity in the lock file.
    if ! (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1) >"$work/npm.log" 2>&1; then
        tail -n 5 "$work/npm.log" >&2
        die "npm could not fetch $what."
    fi
    rm "$work/npm.log"
    chmod 755 "$work" # mktemp made it for its owner alone
    rm -rf "$folder"
    # -T: never into a directory that another run has put there meanwhile.
    mv -T "$work" "$folder" 2>/dev/null || is_there "$pins" "$folder" || die "could not move $what to $folder."
}

main() {
    local tests=no
    case ${1:-} in
    '') ;;
    --tests) tests=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "get-page-libraries.sh: unknown argument '$1' (see --help)." ;;
    esac
    fetch "$sluice_root/apps/report" "$page_libraries_dir" \
        "the libraries of the pages, 3 MB; a build without them has no pages"
    if [[ $tests == yes ]]; then
        fetch "$sluice_root/tests/flash" "$page_tools_dir" "what drives a browser in tests, 14 MB"
    fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
