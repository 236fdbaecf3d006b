#!/usr/bin/env bash
# zig as a C or C++ compiler, or as ar or ranlib, whichever name this was called by.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
zig=${SLUICE_ZIG:-$here/../../../third_party/zig/zig}
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$here/../../../build/zig-cache}
tool=$(basename "$0")
case $tool in
cc | c++) ;;
*) exec "$zig" "$tool" "$@" ;;
esac

# zig has names of its own for what other compilers call -march.
arguments=()
for argument in "$@"; do
    case $argument in
    -march=armv8-a) argument=-mcpu=generic ;;
    -march=armv8.2-a*)
        features=${argument#-march=armv8.2-a}
        argument=-mcpu=generic+v8_2a${features/fp16/fullfp16}
        ;;
    esac
    arguments+=("$argument")
done
exec "$zig" "$tool" -target aarch64-linux-musl "${arguments[@]}"
