# Shared by the scripts of this directory: source it, don't run it.
# Exit codes: 0 done, 1 it failed, 2 it was called wrongly. Messages go to stderr.
# shellcheck shell=bash

sluice_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034 # the scripts use it
llama_dir="$sluice_root/third_party/llama.cpp"
# shellcheck disable=SC2034
page_libraries_dir="$sluice_root/third_party/page-libraries"
# shellcheck disable=SC2034
chat_page_dir="$sluice_root/third_party/chat-page"
# shellcheck disable=SC2034
client_libraries_dir="$sluice_root/third_party/client-libraries"
# shellcheck disable=SC2034
page_tools_dir="$sluice_root/third_party/page-tools"

# Inside a git hook these would point every git command at another repository.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PREFIX GIT_OBJECT_DIRECTORY GIT_COMMON_DIR

note() { printf 'sluice: %s\n' "$*" >&2; }
die() { note "$*"; exit 1; }
usage_error() { note "$*"; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }

# Configures a preset unless that was done already with the same needs.
#   configure PRESET yes|no    the second word: are the tests (and benchmarks) wanted?
configure() {
    local preset=$1 tests=$2
    local dir="$sluice_root/build/$preset" options=()
    local log="$dir/build.log" stamp="$dir/.configured"
    # Libraries that came later change what is built. Missing files are older than any.
    if [[ -e $dir/build.ninja && $stamp -nt $sluice_root/CMakePresets.json &&
        $stamp -nt $page_libraries_dir/package-lock.json && $stamp -nt $chat_page_dir/made-from ]]; then
        [[ $tests == no ]] && return
        grep -q '^SLUICE_BUILD_TESTS:BOOL=ON$' "$dir/CMakeCache.txt" && return
    fi
    if [[ $tests == yes ]]; then
        options+=(-DSLUICE_BUILD_TESTS=ON)
        [[ $preset == release ]] && options+=(-DSLUICE_BUILD_BENCH=ON)
    elif [[ ! -e $dir/build.ninja ]]; then
        options+=(-DSLUICE_BUILD_TESTS=OFF -DSLUICE_BUILD_BENCH=OFF)
    fi
    mkdir -p "$dir"
    note "configuring build/$preset"
    # "${options[@]+...}": an empty array is an unset variable to bash 4.3 and older.
    if ! (cd "$sluice_root" && cmake --preset "$preset" ${options[@]+"${options[@]}"}) >"$log" 2>&1; then
        show_log_tail "$log"
        die "cmake could not configure build/$preset (all of its output: build/$preset/build.log)."
    fi
    touch "$stamp"
}

# Builds targets of a preset (all of it when none is named); silent when there is nothing to do.
build() {
    local preset=$1
    shift
    local log="$sluice_root/build/$preset/build.log"
    if ! NINJA_STATUS='[%f/%t] ' ninja -C "$sluice_root/build/$preset" "$@" 2>&1 |
        tee "$log" | show_progress "build/$preset"; then
        show_log_tail "$log"
        die "the build in build/$preset failed (all of its output: build/$preset/build.log)."
    fi
}

# Reads ninja's output; shows "[done/total]" on one line of a terminal, else a line now and then.
show_progress() {
    local what=$1 line last=-60 shown=no terminal=no
    [[ -t 2 ]] && terminal=yes
    while IFS= read -r line; do
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        if [[ $terminal == yes ]]; then
            printf '\rsluice: building %s: %s of %s ' "$what" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
            shown=yes
        elif ((SECONDS - last >= 60)); then
            note "building $what: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
            last=$SECONDS
        fi
    done
    if [[ $shown == yes ]]; then printf '\n' >&2; fi
}

show_log_tail() { tail -n 60 "$1" >&2; }
