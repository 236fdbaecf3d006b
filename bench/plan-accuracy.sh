#!/usr/bin/env bash
# Planned against measured memory on many architectures: a table in Markdown. Each run fills its context.
#   bench/plan-accuracy.sh BUILD_DIR SCRATCH_DIR
# BUILD_DIR holds the programs, and the models that the test make_arch_models saves. As root each run is in a memory
# control group of exactly its ceiling.
set -euo pipefail

if [ $# -ne 2 ]; then
    echo "usage: plan-accuracy.sh BUILD_DIR SCRATCH_DIR" >&2
    exit 2
fi
build=$1
scratch=$2
bench=$(dirname "${BASH_SOURCE[0]}")
prefix=()

# Prints a table row for: name, model, ceiling in MiB, context.
measure() {
    [ "$(id -u)" -ne 0 ] || prefix=("$bench/under-ceiling.sh" "$3")
    "${prefix[@]}" "$build/bench/planned_run" "$2" "$3" 2 $(($4 - 96)) 64 "$4" |
        sed -E "s/.*\"architecture\":\"([^\"]*)\".*\"cache_mib\":([0-9.]*).*\"measured_mib\":([0-9]*).*\
\"predicted_mib\":([0-9]*).*\"ratio\":([0-9]\.[0-9]{3}).*/| \1 | $1 | $4 | $3 | \2 | \4 | \3 | \5 |/"
}

# A generated model: recipe, layers, ceiling, context.
generated() {
    "$build/apps/cli/sluice" make-model --like "$1" --layers "$2" -o "$scratch/accuracy.gguf" >/dev/null
    measure "$1, $2 layers" "$scratch/accuracy.gguf" "$3" "$4"
    rm "$scratch/accuracy.gguf"
}

# A tiny model saved by llama.cpp's test: name, ceiling, context.
saved() { measure "$1, as saved by llama.cpp's test" "$build/arch-models/$1.gguf" "$2" "$3"; }

echo "| architecture | model | context | ceiling MiB | cache MiB | planned MiB | measured MiB | measured / planned |"
echo "|---|---|---|---|---|---|---|---|"
generated qwen3-30b-a3b 5 700 4096
generated qwen3-248k 4 1000 4096
generated tiny-qwen3moe 96 330 4096
generated tiny-gemma4 96 330 4096
generated tiny-gpt-oss 96 350 4096
generated tiny-nemotron-h-moe 240 330 4096
generated tiny-hashed 96 420 4096
saved deepseek4-moe 400 16384
saved deepseek2-moe 400 32768
saved llama4-moe 400 32768
saved glm4moe-moe 400 32768
saved olmoe-moe 400 32768
