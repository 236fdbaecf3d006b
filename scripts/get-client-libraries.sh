#!/usr/bin/env bash
# Puts OpenAI's and Anthropic's clients, which a test of `sluice serve` uses, into third_party/client-libraries, as
# tests/clients/package-lock.json pins them. Without them that test is not run; nothing else needs them.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: scripts/get-client-libraries.sh"; }

# The folder keeps the lock file that it was made from.
already_there() { cmp -s "$sluice_root/tests/clients/package-lock.json" "$client_libraries_dir/package-lock.json"; }

work=

fetch() {
    note "fetching the clients for the server's test (from npm, 16 MB)"
    cp "$sluice_root/tests/clients/package.json" "$sluice_root/tests/clients/package-lock.json" "$work"
    # npm checks what comes against the sha512 integrity in the lock file.
    if ! (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1) >"$work/npm.log" 2>&1; then
        tail -n 5 "$work/npm.log" >&2
        die "npm could not fetch the clients for the server's test."
    fi
    rm "$work/npm.log"
}

main() {
    case ${1:-} in
    '') ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "get-client-libraries.sh takes no arguments (see --help)." ;;
    esac
    if already_there; then return; fi
    have npm || die "npm is needed to fetch the clients for the server's test."

    local parent
    parent=$(dirname "$client_libraries_dir")
    mkdir -p "$parent" || die "could not make the directory $parent."
    work=$(mktemp -d "$parent/.client-libraries.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    fetch
    chmod 755 "$work" # mktemp made it for its owner alone
    rm -rf "$client_libraries_dir"
    # -T: never into a directory that another run has put there meanwhile.
    mv -T "$work" "$client_libraries_dir" 2>/dev/null || already_there ||
        die "could not move the clients to $client_libraries_dir."
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
