#!/usr/bin/env bash
# Runs llama.cpp's own tests of its server (tools/server/tests) against `sluice serve`, streaming the embedded model.
#   scripts/upstream-server-tests.sh [pytest arguments...]      about ten minutes
# They are run as they are, in a copy of their folder. The models that they fetch are stood in for: a local hub has the
# embedded model under each of their names. docs/server.md says what passes; what can't pass is listed, with reasons, in
# tests/upstream_server/not_passing.txt.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly packages=(python3-pytest python3-requests python3-filelock)
readonly model="$sluice_root/models/tiny-moe-stories-54m-Q4_K_M.gguf"
readonly stand_ins="$sluice_root/tests/upstream_server"
readonly python=/usr/bin/python3 # Debian's own: its packages are of no use to another

work=
hub_pid=

clean_up() {
    [[ -z $hub_pid ]] || kill "$hub_pid" 2>/dev/null || true
    [[ -z $work ]] || rm -rf "$work"
}

# Prints those of the modules that there are not.
missing_modules() {
    local module
    for module in pytest requests filelock; do "$python" -c "import $module" 2>/dev/null || echo "$module"; done
}

get_modules() {
    [[ -n $(missing_modules) ]] || return 0
    have apt-get || die "these Python modules are needed: $(missing_modules | xargs)"
    note "installing ${packages[*]}"
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${packages[@]}" >&2 ||
        die "apt could not install ${packages[*]}."
}

# The names under which the tests ask for models.
fill_hub() {
    local file
    for file in test-model-stories260K/stories260K-F32.gguf test-model-stories260K-infill/stories260K-infill-F32.gguf \
        models/bert-bge-small/ggml-model-f16.gguf models/jina-reranker-v1-tiny-en/ggml-model-f16.gguf \
        stories15M_MOE/stories15M_MOE-F16.gguf tinygemma3-GGUF/tinygemma3-Q8_0.gguf tiny-llamas/stories15M-q4_0.gguf \
        test-model-router-download/tiny-F16.gguf; do
        mkdir -p "$work/hub/ggml-org/${file%/*}"
        ln -s "$model" "$work/hub/ggml-org/$file"
    done
    mkdir -p "$work/no-models" "$work/hub/ggml-org/test-preset-ci"
    "$alter" --adapter "$work/hub/ggml-org/stories15M_MOE/moe_shakespeare15M.gguf"
    printf '[tinygemma3-preset]\nhf-repo = ggml-org/tinygemma3-GGUF:Q8_0\n\n[stories260K-test]\nhf-repo = ggml-org/test-model-stories260K:F32\n' \
        >"$work/hub/ggml-org/test-preset-ci/preset.ini"
}

start_hub() {
    node "$sluice_root/tests/clients/hub.mjs" "$work/hub" 0 >"$work/hub.url" &
    hub_pid=$!
    local tries
    for ((tries = 0; tries < 100; ++tries)); do
        [[ ! -s $work/hub.url ]] || return 0
        sleep 0.1
    done
    die "the stand-in for the hub did not start."
}

# What the tests start as llama-server. Without a model theirs is a router; ours serves the embedded one. Some ask for a longer context than the model was trained for. A model that is to
# embed is told how to pool, as the tests' encoders are by their files, and the one that is to fill in gets the control tokens
# for that.
write_program() {
    cat >"$work/llama-server" <<END
#!/bin/sh
case " \$* " in
*" --hf-repo "* | *" --model "*) ;;
*) set -- --models-dir "$work/no-models" "\$@" ;;
esac
case " \$* " in
*" --pooling "* | *" --reranking "*) ;;
*" --embedding "*) set -- "\$@" --pooling last ;;
*"-infill "*) for part in pre suf mid; do set -- "\$@" --override-kv "tokenizer.ggml.fim_\${part}_token_id=int:\$((\${n:=5} + 1))"; n=\$((n + 1)); done ;;
esac
exec "$sluice" serve --moe-stream --cache-mb 8 --no-hot-set --override-kv qwen3moe.context_length=int:8192 "\$@"
END
    chmod +x "$work/llama-server"
}

# The tests' folder, with as much around it as they look at.
copy_tests() {
    mkdir -p "$work/llama/tools/server" "$work/llama/tools/mtmd" "$work/llama/models"
    cp -R "$llama_dir/tools/server/tests" "$work/llama/tools/server/tests"
    mkdir "$work/llama/tools/server/tests/tmp"
    cp "$llama_dir/tools/mtmd/test-1.jpeg" "$work/llama/tools/mtmd/"
    cp -R "$llama_dir/models/templates" "$work/llama/models/templates"
}

main() {
    case ${1:-} in
    -h | --help) echo "usage: scripts/upstream-server-tests.sh [pytest arguments...]"; exit 0 ;;
    esac
    sluice="$sluice_root/build/release/apps/cli/sluice"
    alter="$sluice_root/build/release/tests/altered_model"
    [[ -x $sluice && -x $alter ]] || die "there is no $sluice or no $alter: build them first (scripts/test.sh does)."
    have node || die "node is needed for the stand-in of the hub."
    get_modules
    work=$(mktemp -d)
    trap clean_up EXIT
    copy_tests
    fill_hub
    write_program
    start_hub
    local shims="$stand_ins/shims" paths
    paths="$stand_ins:$work/llama/tools/server/tests:$shims"
    if [[ -e $chat_page_dir/dist/index.html ]]; then export CHAT_PAGE=yes; fi
    cd "$work/llama/tools/server/tests"
    MODEL_ENDPOINT=$(<"$work/hub.url") LLAMA_CACHE="$work/cache" XDG_CACHE_HOME="$work/user-cache" \
        LLAMA_SERVER_BIN_PATH="$work/llama-server" PYTHONPATH="$paths" PYTHONDONTWRITEBYTECODE=1 \
        timeout --foreground 1800 "$python" -m pytest -p stand_ins -p no:cacheprovider -m "not slow" -rfEsxX --durations=3 -q "${@:-unit}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
