#!/usr/bin/env bash
# Puts the JavaScript libraries of the pages that `sluice report` and `sluice routes` write into
# third_party/page-libraries, as apps/report/package-lock.json pins them. Nothing of them is run.
# Without them Sluice builds all the same; those two commands then say that this build has no pages.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: scripts/get-page-libraries.sh"; }

# The folder keeps the lock file that it was made from.
already_there() { cmp -s "$sluice_root/apps/report/package-lock.json" "$page_libraries_dir/package-lock.json"; }

work=

fetch() {
    note "fetching the libraries of the report pages (from npm, 3 MB)"
    cp "$sluice_root/apps/report/package.json" "$sluice_root/apps/report/package-lock.json" "$work"
    # npm checks what comes against the sha512 integrity in the lock file.
    if ! (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1) >"$work/npm.log" 2>&1; then
        tail -n 5 "$work/npm.log" >&2
        die "npm could not fetch the libraries of the report pages; a build without them has no pages."
    fi
    rm "$work/npm.log"
}

main() {
    case ${1:-} in
    '') ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "get-page-libraries.sh takes no arguments (see --help)." ;;
    esac
    if already_there; then return; fi
    have npm || die "npm is needed to fetch the libraries of the report pages; a build without them has no pages."

    local parent
    parent=$(dirname "$page_libraries_dir")
    mkdir -p "$parent" || die "could not make the directory $parent."
    work=$(mktemp -d "$parent/.page-libraries.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    fetch
    chmod 755 "$work" # mktemp made it for its owner alone
    rm -rf "$page_libraries_dir"
    # -T: never into a directory that another run has put there meanwhile.
    mv -T "$work" "$page_libraries_dir" 2>/dev/null || already_there ||
        die "could not move the libraries to $page_libraries_dir."
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
