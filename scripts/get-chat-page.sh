#!/usr/bin/env bash
# Makes the page to chat of `sluice serve`: builds a copy of llama.cpp's tools/ui with npm and puts the result, 3 MB, into
# third_party/chat-page. Takes some minutes, 3 GB of memory and 700 MB of disk while it runs, and is done once.
# Without it Sluice builds all the same; the server then answers everything but the page.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { echo "usage: scripts/get-chat-page.sh"; }

work=

# What the page is made of, as one word.
fingerprint() { (cd "$llama_dir/tools/ui" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum); }

already_there() { [[ -e $chat_page_dir/made-from ]] && [[ $(<"$chat_page_dir/made-from") == "$(fingerprint)" ]]; }

make_page() {
    note "making the chat page (npm fetches some hundred MB and builds; a few minutes)"
    cp -R "$llama_dir/tools/ui" "$work/source"
    mkdir "$work/page"
    if ! (
        cd "$work/source"
        export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 LLAMA_UI_OUT_DIR="$work/page/dist"
        npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 && npm run build
    ) >"$work/npm.log" 2>&1; then
        tail -n 20 "$work/npm.log" >&2
        die "npm could not make the chat page; a server without it answers everything else."
    fi
    [[ -e $work/page/dist/index.html ]] || die "npm made no page (no index.html)."
    fingerprint >"$work/page/made-from"
}

main() {
    case ${1:-} in
    '') ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "get-chat-page.sh takes no arguments (see --help)." ;;
    esac
    [[ -e $llama_dir/tools/ui/package.json ]] || die "llama.cpp's sources are needed first: scripts/get-llama.sh"
    if already_there; then return; fi
    have npm || die "npm is needed to make the chat page; a server without it answers everything else."

    local parent
    parent=$(dirname "$chat_page_dir")
    mkdir -p "$parent" || die "could not make the directory $parent."
    work=$(mktemp -d "$parent/.chat-page.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    make_page
    rm -rf "$chat_page_dir"
    # -T: never into a directory that another run has put there meanwhile.
    mv -T "$work/page" "$chat_page_dir" 2>/dev/null || already_there || die "could not move the page to $chat_page_dir."
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
