#!/usr/bin/env bash
# Builds what is not built yet, then runs Sluice. The model's text goes to stdout, all else to stderr.
#   scripts/run.sh                       the model that comes with Sluice, its experts streamed
#   scripts/run.sh -p "Once upon a time" the same, with options of `sluice run`
#   scripts/run.sh -m FILE.gguf ...      another model; nothing is added to your options
#   scripts/run.sh serve                 a server with that model (scripts/get-chat-page.sh first for its page to chat)
#   scripts/run.sh SUBCOMMAND ...        any other command of sluice, as given
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Is one of the options named by the first argument (a regular expression) among the others?
has_option() {
    local pattern=$1 argument
    shift
    for argument in "$@"; do
        [[ $argument != -- ]] || return 1
        [[ ! $argument =~ ^($pattern)$ ]] || return 0
    done
    return 1
}

# Sets `arguments` to what sluice is to be called with.
choose_arguments() {
    case ${1:-} in
    -h | --help | --version) arguments=("$@"); return ;;
    esac
    if (($#)) && [[ $1 != -* ]]; then
        arguments=("$@")
        return
    fi
    arguments=(run)
    if ! has_option '-m.*|--model(=.*)?|--no-moe-stream' "$@"; then
        # The embedded model has 28 MB of experts: 8 MB make it stream.
        has_option --moe-stream "$@" || arguments+=(--moe-stream)
        has_option '--cache-mb(=.*)?' "$@" || arguments+=(--cache-mb 8)
    fi
    arguments+=("$@")
}

main() {
    local arguments
    choose_arguments "$@"
    "$sluice_root/scripts/install-deps.sh" >&2
    "$sluice_root/scripts/get-llama.sh" >&2
    local sluice="$sluice_root/build/release/apps/cli/sluice"
    # A build that has no pages is asked about them only when they are wanted.
    if [[ ! -e $sluice || ${arguments[0]} =~ ^(report|routes)$ ]]; then
        "$sluice_root/scripts/get-page-libraries.sh" >&2 || note "going on without them."
    fi
    configure release no
    build release sluice
    exec "$sluice" "${arguments[@]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
