#!/usr/bin/env bash
# Builds the app's package and checks what a phone would read of it. An engine is packed if one was built.
#   tests/android/check_apk.sh FOLDER    exit code 77: the tools are not here
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$1
engines="$root/build/android-arm64/lib"

wrong() { echo "check_apk.sh: $*" >&2; exit 1; }
skip() { echo "check_apk.sh: skipped: $*" >&2; exit 77; }

for tool in aapt2 zipalign apksigner javac dexdump zip unzip; do
    command -v "$tool" >/dev/null || skip "$tool is not here (scripts/install-deps.sh --android)"
done
[[ -e $root/third_party/android-tools/from ]] || skip "scripts/build-apk.sh has not fetched its tools yet"

options=(--out "$folder/apk")
with_engine=no
if compgen -G "$engines/libsluice_*.so" >/dev/null; then with_engine=yes; else options+=(--without-engine); fi

# expect TEXT IN-WHAT: the text must be in what stdin brings.
expect() { grep -qF -- "$1" <<<"$2" || wrong "'$1' is missing in: $2"; }

check_badging() {
    local badging manifest
    badging=$(aapt2 dump badging "$1")
    expect "package: name='org.sluice.app'" "$badging"
    expect "sdkVersion:'26'" "$badging"
    expect "targetSdkVersion:'34'" "$badging"
    expect "launchable-activity: name='org.sluice.app.MainActivity'" "$badging"
    for permission in INTERNET FOREGROUND_SERVICE FOREGROUND_SERVICE_DATA_SYNC POST_NOTIFICATIONS; do
        expect "uses-permission: name='android.permission.$permission'" "$badging"
    done
    manifest=$(aapt2 dump xmltree --file AndroidManifest.xml "$1")
    expect 'extractNativeLibs(0x010104ea)=true' "$manifest"
    expect 'allowBackup(0x01010280)=false' "$manifest"
    expect 'foregroundServiceType(0x01010599)=0x00000001' "$manifest" # dataSync
    [[ $(grep -c 'exported(0x01010010)=true' <<<"$manifest") == 1 ]] || wrong "more than the main activity is open to other apps"
    if [[ ${2:-} == game ]]; then expect 'appCategory(0x01010545)=' "$manifest"; fi
}

check_contents() {
    local code name engines_in
    code=$(unzip -p "$1" classes.dex | tee "$folder/classes.dex" | wc -c)
    ((code > 0)) || wrong "there is no code"
    code=$(dexdump "$folder/classes.dex")
    for name in app/MainActivity app/EngineService app/ModelActivity app/SettingsActivity app/SluiceApp core/Engine; do
        expect "Class descriptor  : 'Lorg/sluice/$name;'" "$code"
    done
    if [[ $with_engine == yes ]]; then
        engines_in=$(unzip -l "$1")
        for name in "$engines"/libsluice_*.so; do expect "lib/arm64-v8a/$(basename "$name")" "$engines_in"; done
    fi
}

apk=$("$root/scripts/build-apk.sh" "${options[@]}" | tail -n 1)
[[ -s $apk ]] || wrong "the last line was no path of an APK: $apk"
zipalign -c -p 4 "$apk" || wrong "it is not aligned"
apksigner verify --min-sdk-version 26 "$apk" || wrong "its signature is not valid"
check_badging "$apk"
check_contents "$apk"
game=$("$root/scripts/build-apk.sh" --game --without-engine --out "$folder/game" | tail -n 1)
check_badging "$game" game
echo "$apk is in order"
