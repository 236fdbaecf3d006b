#!/usr/bin/env bash
# Builds stock llama.cpp's own tools from the pinned tree, with back ends that are loaded when they run, in
# build/stock-dl: what the plug-in is tried with. About 15 minutes of two processors. The last line is the directory that
# they are in.
#   scripts/build-stock-tools.sh [--libraries]   only the libraries, which a program of one's own loads (4 minutes)
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly dir="$sluice_root/build/stock-dl"
targets=(llama-server llama-cli llama-completion llama-bench llama-perplexity ggml-cpu)

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help)
            echo "usage: scripts/build-stock-tools.sh [--libraries]"
            exit 0
            ;;
        --libraries) targets=(llama ggml-cpu) ;;
        *) usage_error "build-stock-tools.sh: unknown argument '$1' (see --help)." ;;
        esac
        shift
    done
}

configure_stock() {
    local log="$dir/build.log" options=(
        -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF
        -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_ALL_WARNINGS=OFF)
    [[ -e $dir/build.ninja ]] && return
    if have ccache; then options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
    mkdir -p "$dir"
    note "configuring build/stock-dl"
    if ! cmake -S "$llama_dir" -B "$dir" -G Ninja "${options[@]}" >"$log" 2>&1; then
        show_log_tail "$log"
        die "cmake could not configure build/stock-dl (all of its output: build/stock-dl/build.log)."
    fi
}

main() {
    parse_arguments "$@"
    "$sluice_root/scripts/install-deps.sh" >&2
    "$sluice_root/scripts/get-llama.sh" >&2
    configure_stock
    build stock-dl "${targets[@]}"
    echo "$dir/bin"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
