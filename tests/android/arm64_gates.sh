#!/usr/bin/env bash
# Byte identity of the engine for arm64 Android, streamed against stock llama.cpp of the same build, under qemu-user.
#   tests/android/arm64_gates.sh [-j JOBS] [FILTER]    a GoogleTest filter of moe_gates
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build="$root/build/android-arm64"
jobs=()
if [[ ${1:-} == -j ]]; then
    jobs=(-j "$2")
    shift 2
fi
readonly some="EmbeddedModel.CacheOfTheMinimumEvicts:EmbeddedModel.DirectReads:EmbeddedModel.WithoutRepacking"
filter=${1:-$some:EmbeddedModel.PromptOf64TokensNeedsMoreExpertsThanTheCacheHolds:Shapes.SplitModel:Shapes.ExpertBiases}

qemu=$(command -v qemu-aarch64-static) || { echo "qemu-aarch64-static is needed (scripts/install-deps.sh --android)" >&2; exit 1; }
cd "$root"
cmake --preset android-musl -DSLUICE_BUILD_TESTS=ON -DCMAKE_CROSSCOMPILING_EMULATOR="$qemu;-cpu;max" >"$build/gates.log"
ninja -C "$build" "${jobs[@]}" stock_logits moe_gates

# The gates start the reference as a program of its own, which this machine can only run through qemu.
reference="$build/tests/stock_logits"
if [[ $(head -c 2 "$reference") != '#!' ]]; then
    mv "$reference" "$reference.arm64"
    printf '#!/bin/sh\nexec "%s" -cpu max "%s" "$@"\n' "$qemu" "$reference.arm64" >"$reference"
    chmod +x "$reference"
fi
XDG_CACHE_HOME="$build/test-cache" "$qemu" -cpu max "$build/tests/moe_gates" --gtest_filter="$filter"
