#!/usr/bin/env bash
# Builds everything and runs the tests.
#   scripts/test.sh [--preset release|asan|tsan] [--selected] [--long] [ctest arguments...]
# With --selected only what continuous integration runs under sanitizers: unit tests and a few gates.
# With --long the plug-in is also tried in all of stock llama.cpp's tools, not only in a program that loads its libraries:
# building them takes about 15 minutes of two processors.
# The exit code and the last lines are ctest's.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

preset=release
stock=(--libraries)
targets=()
ctest_arguments=()

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help)
            echo "usage: scripts/test.sh [--preset release|asan|tsan] [--selected] [--long] [ctest arguments...]"
            exit 0
            ;;
        --selected)
            targets=(sanitized_tests)
            ctest_arguments+=(-L 'unit|sanitized')
            ;;
        --long) stock=() ;;
        --preset)
            (($# > 1)) || usage_error "--preset needs a name: release, asan or tsan."
            preset=$2
            shift
            ;;
        --preset=*) preset=${1#*=} ;;
        *) ctest_arguments+=("$1") ;;
        esac
        shift
    done
    case $preset in
    release | asan | tsan) ;;
    *) usage_error "there is no preset '$preset': release, asan and tsan are." ;;
    esac
}

main() {
    parse_arguments "$@"
    "$sluice_root/scripts/install-deps.sh" --tests >&2
    "$sluice_root/scripts/get-llama.sh" >&2
    "$sluice_root/scripts/get-page-libraries.sh" --tests >&2 || note "going on without them."
    "$sluice_root/scripts/get-client-libraries.sh" >&2 || note "going on without them."
    if [[ $preset == release ]]; then "$sluice_root/scripts/build-stock-tools.sh" ${stock[@]+"${stock[@]}"} >&2; fi
    configure "$preset" yes
    build "$preset" ${targets[@]+"${targets[@]}"}

    local ctest=(ctest --preset "$preset" -j2 --output-on-failure --no-tests=error)
    # GCC 12's ThreadSanitizer cannot start where the kernel randomises more bits of an address than it knows.
    if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then ctest=(setarch -R "${ctest[@]}"); fi
    cd "$sluice_root"
    exec "${ctest[@]}" ${ctest_arguments[@]+"${ctest_arguments[@]}"}
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
