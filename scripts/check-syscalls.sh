#!/usr/bin/env bash
# Runs the engine for arm64 Android under qemu-user, traces its system calls and compares them with those that an app may
# make: an Android that meets another one kills the app at once. Traced: a streamed run, rows included, and a served request.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly model="$sluice_root/models/tiny-moe-stories-54m-Q4_K_M.gguf"
readonly qemu=qemu-aarch64-static
readonly key=traced

lists=
programs=()
work=
server=

usage() {
    cat <<EOF
usage: scripts/check-syscalls.sh --lists DIR [PROGRAM...]
  --lists DIR  folder with allow-*.txt: for each Android the names of the calls that an app may make, one a line
               (from bionic's own lists; they are not part of this repository)
  PROGRAM      default: build/android-arm64/lib/libsluice_*.so
EOF
}

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --lists)
            (($# > 1)) || usage_error "--lists needs a folder."
            lists=$2
            shift
            ;;
        -*) usage_error "check-syscalls.sh: unknown argument '$1' (see --help)." ;;
        *) programs+=("$1") ;;
        esac
        shift
    done
    [[ -n $lists ]] || usage_error "check-syscalls.sh needs --lists (see --help)."
    compgen -G "$lists/allow-*.txt" >/dev/null || die "there is no allow-*.txt in $lists."
    ((${#programs[@]})) || mapfile -t programs < <(compgen -G "$sluice_root/build/android-arm64/lib/libsluice_*.so")
    ((${#programs[@]})) || die "no engine in build/android-arm64/lib: run scripts/build-android.sh first."
}

# qemu's processor has all of the features that builds are made for.
traced() {
    local trace=$1
    shift
    env -i HOME="$work" XDG_CACHE_HOME="$work" LLAMA_API_KEY=$key PATH="$PATH" \
        "$qemu" -cpu max -strace -D "$trace" "$@"
}

trace_run() {
    traced "$work/run.trace" "$1" run "$model" --moe-stream --cache-mb 4 --row-stream --row-stream-mb 0.25 -t 2 -n 8 \
        --temp 0 --prompt "Once upon a time" >"$work/run.out" 2>"$work/run.err" ||
        die "the traced run of $1 failed: $(tail -n 3 "$work/run.err")"
}

free_port() {
    node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })'
}

trace_server() {
    local port answer
    port=$(free_port)
    traced "$work/serve.trace" "$1" serve --model "$model" --moe-stream=on --cache-mb 4 --row-stream --ctx-size 128 \
        --threads 2 --host 127.0.0.1 --port "$port" >"$work/serve.out" 2>&1 &
    server=$!
    await_server "$port"
    answer=$(ask "$port" /completion '{"prompt": "Once upon a time", "n_predict": 4, "temperature": 0}')
    [[ $answer == *'"content"'* ]] || die "the traced server gave no answer but: $answer"
    [[ $(ask "$port" /flash/state) == *'"models"'* ]] || die "the traced server has no flash panel."
    ask "$port" /flash/trim '{}' >"$work/trim.out" || die "the traced server did not trim."
    kill -TERM $server
    wait $server || true
    server=
}

ask() {
    local port=$1 path=$2 body=${3:-}
    curl -sS --max-time 300 -H "Authorization: Bearer $key" -H 'Content-Type: application/json' ${body:+-d "$body"} \
        "http://127.0.0.1:$port$path"
}

await_server() {
    local i
    for ((i = 0; i < 600; ++i)); do
        if curl -sf --max-time 5 "http://127.0.0.1:$1/health" >/dev/null; then return; fi
        kill -0 $server 2>/dev/null || die "the traced server ended: $(tail -n 3 "$work/serve.out")"
        sleep 0.5
    done
    die "the traced server did not answer within minutes."
}

# Lines are "PID name(arguments) = result", and interrupted ones are broken in two.
calls_in() {
    grep -hoE '^[0-9]+ [a-z_0-9]+\(' "$@" | sed -E 's/^[0-9]+ //; s/\($//' | sort -u
}

check_program() {
    local program=$1 list forbidden bad=0
    trace_run "$program"
    if [[ $("$qemu" "$program" serve --help 2>/dev/null | head -n 1) == *"server, streamed"* ]]; then
        trace_server "$program"
    else
        note "$(basename "$program") has no server: only a run was traced."
    fi
    calls_in "$work"/*.trace >"$work/calls"
    [[ $(wc -l <"$work/calls") -gt 10 ]] || die "the trace shows no calls."
    for list in "$lists"/allow-*.txt; do
        forbidden=$(comm -23 "$work/calls" <(translated "$list"))
        if [[ -n $forbidden ]]; then
            note "$(basename "$program"): forbidden by $(basename "$list"): ${forbidden//$'\n'/ }"
            bad=1
        fi
    done
    note "$(basename "$program") makes $(wc -l <"$work/calls") kinds of system calls: $(paste -sd' ' "$work/calls")"
    return $bad
}

# The lists are bionic's names, qemu's are the kernel's.
translated() {
    sed -E 's/^newfstatat$/fstatat\nnewfstatat/; s/^fstatat64$/fstatat\nnewfstatat/' "$1" | sort -u
}

main() {
    parse_arguments "$@"
    have "$qemu" || die "$qemu is needed (scripts/install-deps.sh --android)."
    work=$(mktemp -d)
    trap '[[ -z $server ]] || kill $server; rm -rf "$work"' EXIT
    local program failed=0
    for program in "${programs[@]}"; do
        rm -f "$work"/*.trace
        check_program "$program" || failed=1
    done
    ((failed == 0)) || die "some calls are not allowed: such an app would be killed."
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
