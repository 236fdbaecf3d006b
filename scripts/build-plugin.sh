#!/usr/bin/env bash
# Builds the plug-in for stock programs of llama.cpp (docs/plugin.md). Its path is the last line.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

main() {
    case ${1:-} in
    '') ;;
    -h | --help)
        echo "usage: scripts/build-plugin.sh"
        exit 0
        ;;
    *) usage_error "build-plugin.sh: unknown argument '$1' (see --help)." ;;
    esac
    "$sluice_root/scripts/install-deps.sh" >&2
    "$sluice_root/scripts/get-llama.sh" >&2
    configure release no
    build release ggml-sluice
    echo "$sluice_root/build/release/apps/plugin/libggml-sluice.so"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
