#!/usr/bin/env bash
# For a person with a phone on a USB cable: what could not be tried without one. Puts the engine and the app on the phone, runs
# what can be run from here, and says what to do and to look for by hand. Writes what it finds to build/phone-check.txt.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly package=org.sluice.app
readonly place=/data/local/tmp/sluice
readonly report="$sluice_root/build/phone-check.txt"

model="$sluice_root/models/tiny-moe-stories-54m-Q4_K_M.gguf"
apk=

usage() {
    cat <<EOF
usage: scripts/phone-check.sh [--model FILE.gguf] [APK]
  --model FILE  a model to try (default: the tiny one in models/); one that is larger than the phone's memory tells most
  APK           default: build/apk/sluice-*.apk (scripts/build-apk.sh)
EOF
}

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --model)
            (($# > 1)) || usage_error "--model needs a file."
            model=$2
            shift
            ;;
        -*) usage_error "phone-check.sh: unknown argument '$1' (see --help)." ;;
        *)
            [[ -z $apk ]] || usage_error "phone-check.sh takes one APK, '$apk' and '$1' are two."
            apk=$1
            ;;
        esac
        shift
    done
    [[ -n $apk ]] || apk=$(compgen -G "$sluice_root/build/apk/sluice-*.apk" | head -n 1) || true
    [[ -f $apk ]] || die "there is no APK: run scripts/build-android.sh and scripts/build-apk.sh first."
    [[ -f $model ]] || die "there is no file $model."
}

say() { printf '%s\n' "$*" | tee -a "$report"; }
phone() { adb shell "$@" </dev/null; }

describe_phone() {
    say "phone: $(phone getprop ro.product.manufacturer) $(phone getprop ro.product.model)," \
        "Android $(phone getprop ro.build.version.release), kernel $(phone uname -r), pages of $(phone getconf PAGE_SIZE)"
    say "processor: $(phone grep -m1 Features /proc/cpuinfo | cut -d: -f2)"
    say "memory: $(phone grep MemTotal /proc/meminfo | tr -s ' ')"
}

# As CpuChoice.java does.
engine_for_phone() {
    local features
    features=" $(phone grep Features /proc/cpuinfo | cut -d: -f2 | tr '\n' ' ') "
    if [[ $features != *" asimddp "* || $features != *" asimdhp "* ]]; then
        echo v8
    elif [[ $features == *" i8mm "* ]]; then
        echo i8mm
    else
        echo dotprod
    fi
}

# Outside the app's sandbox: whether it runs at all, whether bytes are the same, and how fast.
run_engine() {
    local engine
    engine="$sluice_root/build/android-arm64/lib/libsluice_$(engine_for_phone).so"
    [[ -f $engine ]] || die "there is no $engine: run scripts/build-android.sh."
    say "engine: $(basename "$engine")"
    phone mkdir -p $place
    adb push "$engine" $place/sluice >/dev/null
    adb push "$model" $place/model.gguf >/dev/null
    phone chmod 755 $place/sluice
    local run="XDG_CACHE_HOME=$place $place/sluice run $place/model.gguf -n 64 --temp 0 --prompt 'Once upon a time'"
    phone "$run --moe-stream" >/dev/null 2>>"$report" || say "FAILED: the streamed run"
    # In the file's layout, which streamed experts have, too: then texts must be the same.
    phone "$run --moe-stream --no-repack" >"$sluice_root/build/streamed.txt" 2>/dev/null || say "FAILED: without repacking"
    if ! phone "$run --no-moe-stream --no-repack" >"$sluice_root/build/resident.txt" 2>/dev/null; then
        say "held in memory it does not run (expected if it is larger than memory)"
    elif cmp -s "$sluice_root/build/streamed.txt" "$sluice_root/build/resident.txt"; then
        say "streamed and resident text are the same"
    else
        say "FAILED: streamed and resident text differ"
    fi
    phone rm -rf $place
}

install_app() {
    adb install -r "$apk" >/dev/null || die "the phone did not take the APK."
    phone mkdir -p "/sdcard/Android/data/$package/files/models"
    adb push "$model" "/sdcard/Android/data/$package/files/models/" >/dev/null ||
        say "the model could not be put into the app's folder; choose it in the app instead"
    adb logcat -c || true
    phone am start -n "$package/.MainActivity" >/dev/null
    say "the app was installed and started"
}

by_hand() {
    cat <<'EOF' | tee -a "$report"
Please do this on the phone, and note after each line what you saw:
 1. Model card: "Look" at the model, then "Copy into the app", then "Use". A notification appears and shows tokens/s.
 2. Chat: ask something. Rotate the phone while it answers: the answer goes on.
 3. Flash: charts move. Memory: "trim" gives something back.
 4. Settings: switch "Stream row-gathered tables" on, start again. Flash shows moe-rows figures. The chat is still there.
 5. Open the camera and a game while it answers. Does the engine survive? If Android ends the app: does it come back, with the chat?
 6. Ten minutes of answers: tokens/s at the start and at the end, the battery's heat, the phone's heat in the notification.
 7. The same with an APK of `scripts/build-apk.sh --game`: is it faster after ten minutes?
 8. Stop in the notification: it goes, and so does the notification.
 9. Download a split model; switch the network off in the middle and on again.
EOF
    read -r -p "Press Enter when done: " _ </dev/tty || true
}

look_at_log() {
    local killed
    killed=$(adb logcat -d 2>/dev/null | grep -iE 'seccomp|SIGSYS|FATAL EXCEPTION' | grep -iE "sluice|$package" || true)
    if [[ -n $killed ]]; then say "FAILED: the log has: $killed"; else say "the log knows of no forbidden call and no crash"; fi
    say "memory of the app: $(phone dumpsys meminfo $package | grep -m1 'TOTAL PSS' | tr -s ' ' || true)"
}

main() {
    parse_arguments "$@"
    have adb || die "adb is needed (Debian's package adb), and USB debugging on the phone."
    [[ $(adb get-state 2>/dev/null) == device ]] || die "adb sees no phone: allow USB debugging on it."
    mkdir -p "$(dirname "$report")"
    : >"$report"
    describe_phone
    run_engine
    install_app
    by_hand
    look_at_log
    note "what was found is in build/phone-check.txt"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
