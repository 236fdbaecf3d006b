#!/usr/bin/env bash
# Builds everything and runs the tests.
#   scripts/test.sh [--preset release|asan|tsan|fuzz] [--selected] [--long] [ctest arguments...]
# With --selected only what continuous integration runs under sanitizers: unit tests and a few gates.
# With --long the plug-in is also tried in all of stock llama.cpp's tools, not only in a program that loads its libraries:
# building them takes about 15 minutes of two processors. And what takes minutes or hours, or needs root and a network,
# runs after the tests: see long_steps.
# The exit code and the last lines are ctest's.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

preset=release
stock=(--libraries)
targets=()
ctest_arguments=()
long=no

# Each is a function below. All run, whatever became of those before.
readonly long_steps=(upstream_server_tests fuzz_for_minutes soak_for_minutes check_package)

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help)
            echo "usage: scripts/test.sh [--preset release|asan|tsan|fuzz] [--selected] [--long] [ctest arguments...]"
            exit 0
            ;;
        --selected)
            targets=(sanitized_tests)
            ctest_arguments+=(-L 'unit|sanitized')
            ;;
        --long)
            stock=()
            long=yes
            ;;
        --preset)
            (($# > 1)) || usage_error "--preset needs a name: release, asan, tsan or fuzz."
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
    fuzz) targets=(fuzz) ;;
    *) usage_error "there is no preset '$preset': release, asan, tsan and fuzz are." ;;
    esac
}

# llama.cpp's own tests of its server, against ours.
upstream_server_tests() {
    build release sluice altered_model
    "$sluice_root/scripts/upstream-server-tests.sh"
}

# Ten minutes for each target.
fuzz_for_minutes() { FUZZ_SECONDS=600 "$sluice_root/scripts/test.sh" --preset fuzz; }

soak_for_minutes() {
    build release soak
    "$sluice_root/build/release/bench/soak" "$sluice_root/models/tiny-moe-stories-54m-Q4_K_M.gguf" 600
}

# The Debian package, built twice, and installed in a system that has nothing else.
check_package() { "$sluice_root/scripts/check-package.sh"; }

run_long_steps() {
    local step failed=()
    for step in "${long_steps[@]}"; do
        note "long step: $step"
        ("$step") || failed+=("$step")
    done
    ((${#failed[@]} == 0)) || die "these long steps failed: ${failed[*]}"
}

main() {
    parse_arguments "$@"
    "$sluice_root/scripts/install-deps.sh" --tests >&2
    "$sluice_root/scripts/get-llama.sh" >&2
    "$sluice_root/scripts/get-page-libraries.sh" --tests >&2 || note "going on without them."
    "$sluice_root/scripts/get-client-libraries.sh" >&2 || note "going on without them."
    if [[ $preset == release ]]; then "$sluice_root/scripts/build-stock-tools.sh" ${stock[@]+"${stock[@]}"} >&2; fi
    if [[ $preset == fuzz ]]; then configure fuzz no; else configure "$preset" yes; fi
    build "$preset" ${targets[@]+"${targets[@]}"}

    local ctest=(ctest --preset "$preset" -j2 --output-on-failure --no-tests=error)
    # GCC 12's ThreadSanitizer cannot start where the kernel randomises more bits of an address than it knows.
    if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then ctest=(setarch -R "${ctest[@]}"); fi
    cd "$sluice_root"
    if [[ $long == no ]]; then exec "${ctest[@]}" ${ctest_arguments[@]+"${ctest_arguments[@]}"}; fi
    "${ctest[@]}" ${ctest_arguments[@]+"${ctest_arguments[@]}"}
    run_long_steps
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
