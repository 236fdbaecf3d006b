#!/usr/bin/env bash
# Runs a test of the flash panel in a browser; exits with 77, and says why, where something for that is missing.
#   run.sh TEST FILES PROGRAM   FILES: the folder with the panel's files as the build made them; PROGRAM: sluice
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() { echo "skipped: $*"; exit 77; }

find_browser() {
    local name
    for name in chromium chromium-browser google-chrome; do command -v "$name" && return; done
    return 1
}

main() {
    export PANEL_FILES=$2 PANEL_PROGRAM=$3
    export PANEL_TOOLS="$here/../../third_party/page-tools"
    PANEL_BROWSER=$(find_browser) || skip "there is no Chromium on the PATH"
    export PANEL_BROWSER
    command -v node >/dev/null || skip "there is no node on the PATH"
    [[ -e $PANEL_FILES/flash ]] || skip "this build has no pages: scripts/get-page-libraries.sh fetches what they need"
    [[ -e $PANEL_TOOLS/node_modules/playwright-core ]] ||
        skip "no playwright-core: scripts/get-page-libraries.sh --tests fetches it"
    exec node --test "$here/$1"
}

main "$@"
