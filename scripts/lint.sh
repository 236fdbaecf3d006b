#!/usr/bin/env bash
# Checks the format of our C++ sources and our shell scripts; with --tidy also runs clang-tidy.
#   scripts/lint.sh [--tidy] [--preset release|asan|tsan]   the preset whose compile commands clang-tidy reads
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly source_dirs=(include src apps tests bench)

tidy=no
preset=release
failed=0

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help) echo "usage: scripts/lint.sh [--tidy] [--preset release|asan|tsan]"; exit 0 ;;
        --tidy) tidy=yes ;;
        --preset)
            (($# > 1)) || usage_error "--preset needs a name."
            preset=$2
            shift
            ;;
        *) usage_error "lint.sh: unknown argument '$1' (see --help)." ;;
        esac
        shift
    done
}

# Prints our files that match the patterns, each ended by a zero byte.
list_files() { git ls-files -z --cached --others --exclude-standard -- "$@" | only_existing | sort -zu; }

only_existing() {
    local file
    while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done
}

sources() {
    local dir patterns=()
    for dir in "${source_dirs[@]}"; do patterns+=("$dir/*.cpp" "$dir/*.h" "$dir/*.hpp"); done
    list_files "${patterns[@]}"
}

check_format() {
    have clang-format || die "clang-format is needed (Debian's package has the same name)."
    sources | xargs -0 -r clang-format --dry-run -Werror || failed=1
}

check_scripts() {
    if ! have shellcheck; then
        note "shellcheck is not installed; the scripts were not checked."
        return
    fi
    list_files 'scripts/*.sh' 'tests/*.sh' cmake/toolchains/zig/run.sh .ci/run | xargs -0 -r shellcheck -x || failed=1
}

# Our files among those that the build compiles: clang-tidy needs to know how each is compiled.
compiled_sources() {
    local file
    while IFS= read -r -d '' file; do
        if grep -qF "\"file\": \"$sluice_root/$file\"" "build/$preset/compile_commands.json"; then
            printf '%s\0' "$file"
        fi
    done < <(sources)
}

check_tidy() {
    have clang-tidy || die "clang-tidy is needed (Debian's package has the same name)."
    [[ -e build/$preset/compile_commands.json ]] ||
        die "build/$preset is not configured: run scripts/test.sh --preset $preset first."
    # The compile commands are GCC's: clang need not know every warning of them.
    compiled_sources | xargs -0 -r -n 1 -P "$(nproc)" clang-tidy --quiet -p "build/$preset" \
        --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument || failed=1
}

main() {
    parse_arguments "$@"
    cd "$sluice_root"
    check_format
    check_scripts
    if [[ $tidy == yes ]]; then check_tidy; fi
    if ((failed)); then die "the checks found something."; fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
