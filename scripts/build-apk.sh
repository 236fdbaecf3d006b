#!/usr/bin/env bash
# Builds the Android app from packages alone (scripts/install-deps.sh --android), without an SDK. The last line that it
# prints is the APK's path. The engine is what scripts/build-android.sh has put into build/android-arm64/lib.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly app="$sluice_root/apps/android"
readonly package=org.sluice.app
readonly min_sdk=26
readonly target_sdk=34
readonly framework=/usr/share/android-framework-res/framework-res.apk

# Only in another release of Debian: what to compile against, and what makes Dalvik's code of Java's. "package version
# sha256" each.
readonly other_suite=bullseye
readonly other_packages=(
    "libandroid-23-java 6.0.1+r72-6 8af1b6df556971dda0a6da3536ea526a838e0c363afcdd454213d8bce94793e3"
    "dalvik-exchange 10.0.0+r36-1 8fc128db7c27253d963eb9b33de79b197162a4749d2ba69019b2fd0664cbd7fe"
)
readonly tools_dir="$sluice_root/third_party/android-tools"

engines="$sluice_root/build/android-arm64/lib"
out="$sluice_root/build/apk"
game=no
without_engine=no
work=

usage() {
    cat <<EOF
usage: scripts/build-apk.sh [--engines DIR] [--out DIR] [--game] [--without-engine]
  --engines DIR      folder with libsluice_*.so (default: build/android-arm64/lib)
  --out DIR          where to build; what is there is deleted (default: build/apk)
  --game             call it a game (appCategory): some phones let games use the processor at full speed for longer
  --without-engine   an app that starts and says that it has no engine; for looking at its screens
EOF
}

parse_arguments() {
    while (($#)); do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --engines | --out)
            (($# > 1)) || usage_error "$1 needs a folder."
            if [[ $1 == --engines ]]; then engines=$2; else out=$2; fi
            shift
            ;;
        --game) game=yes ;;
        --without-engine) without_engine=yes ;;
        *) usage_error "build-apk.sh: unknown argument '$1' (see --help)." ;;
        esac
        shift
    done
}

check_tools() {
    local tool missing=()
    for tool in aapt2 zipalign apksigner javac java keytool zip dpkg-deb apt-get; do
        have "$tool" || missing+=("$tool")
    done
    [[ -e $framework ]] || missing+=("$framework")
    ((${#missing[@]} == 0)) || die "missing: ${missing[*]} (scripts/install-deps.sh --android installs them)."
    if [[ $without_engine == no ]] && ! compgen -G "$engines/libsluice_*.so" >/dev/null; then
        die "no engine in $engines: run scripts/build-android.sh first (or give --without-engine)."
    fi
}

version() { sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' "$sluice_root/CMakeLists.txt"; }

# 1.2.3 is 10203: a newer version has a larger number.
version_code() {
    local major minor patch
    IFS=. read -r major minor patch <<<"$(version)"
    echo $((major * 10000 + minor * 100 + patch))
}

tools_are_there() { [[ -e $tools_dir/from && $(<"$tools_dir/from") == "${other_packages[*]}" ]]; }

# Where this machine gets Debian's packages from.
debian_source() {
    # shellcheck disable=SC2016 # apt fills these in
    apt-get indextargets --format '$(COMPONENT) $(ORIGIN) $(LABEL) $(SITE)' 'Created-By: Packages' |
        awk '$1 == "main" && $2 == "Debian" && $3 == "Debian" { print $4; exit }'
}

# The machine's own source with another release's name, in a folder of its own: nothing of the system changes.
make_apt_root() {
    local root=$1 source
    source=$(debian_source)
    [[ -n $source ]] || die "apt has no source of Debian's main packages to take $other_suite from."
    mkdir -p "$root/lists/partial" "$root/cache/archives/partial" "$root/sources"
    cat >"$root/apt.conf" <<EOF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$root/sources";
Dir::State::lists "$root/lists";
Dir::Cache "$root/cache";
APT::Sandbox::User "";
EOF
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$source" "$other_suite" \
        >"$root/sources/other.list"
}

fetch_package() {
    local name=$1 package_version=$2 hash=$3 file
    (cd "$work" && apt-get -qq -c "$work/apt/apt.conf" download "$name=$package_version") >&2 ||
        die "apt could not fetch $name $package_version from $other_suite."
    file=$(echo "$work/$name"_*.deb)
    echo "$hash  $file" | sha256sum --check --status ||
        die "$name $package_version is not the pinned one: its sha256 is not $hash."
    dpkg-deb -x "$file" "$work/tools"
}

get_tools() {
    ! tools_are_there || return 0
    local entry name package_version hash
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    note "fetching android.jar and dx ($other_suite, 15 MB)"
    make_apt_root "$work/apt"
    apt-get -qq -c "$work/apt/apt.conf" update >&2 || die "apt could not read the package list of $other_suite."
    for entry in "${other_packages[@]}"; do
        read -r name package_version hash <<<"$entry"
        fetch_package "$name" "$package_version" "$hash"
    done
    mkdir -p "$tools_dir"
    cp -L "$work/tools/usr/lib/android-sdk/platforms/android-23/android.jar" "$tools_dir/android.jar"
    cp -L "$work/tools/usr/share/java/com.android.dx.jar" "$tools_dir/dx.jar"
    echo "${other_packages[*]}" >"$tools_dir/from"
}

link_resources() {
    local manifest="$out/AndroidManifest.xml"
    sed "s|<manifest |&package=\"$package\" |" "$app/AndroidManifest.xml" >"$manifest"
    if [[ $game == yes ]]; then
        sed -i 's|android:allowBackup=|android:appCategory="game"\n        &|' "$manifest"
    fi
    aapt2 compile --dir "$app/res" -o "$out/resources.zip"
    aapt2 link -I "$framework" --manifest "$manifest" --min-sdk-version $min_sdk --target-sdk-version $target_sdk \
        --version-code "$(version_code)" --version-name "$(version)" --java "$out/generated" -o "$out/unaligned.apk" \
        "$out/resources.zip"
}

compile_code() {
    local sources
    mapfile -t sources < <(find "$app/java" "$out/generated" -name '*.java' | sort)
    mkdir -p "$out/classes"
    javac -Xlint:all,-options,-deprecation -Werror -source 8 -target 8 -encoding UTF-8 \
        -bootclasspath "$tools_dir/android.jar" -d "$out/classes" "${sources[@]}" >&2
    java -cp "$tools_dir/dx.jar" com.android.dx.command.Main --dex --min-sdk-version=$min_sdk \
        --output="$out/classes.dex" "$out/classes" >&2
}

add_engines() {
    [[ $without_engine == no ]] || return 0
    mkdir -p "$out/lib/arm64-v8a"
    cp "$engines"/libsluice_*.so "$out/lib/arm64-v8a/"
    (cd "$out" && zip -q unaligned.apk lib/arm64-v8a/*)
}

# Made on the spot and kept: an app can only be replaced by one with the same key.
make_debug_key() {
    local key="$sluice_root/build/debug.keystore"
    if [[ ! -e $key ]]; then
        mkdir -p "$(dirname "$key")"
        keytool -genkeypair -keystore "$key" -storepass android -keypass android -alias debug -keyalg RSA -keysize 2048 \
            -validity 10000 -dname "CN=Sluice debug" >/dev/null 2>&1 || die "keytool could not make a debug key."
    fi
    echo "$key"
}

make_apk() {
    local key apk
    key=$(make_debug_key)
    apk="$out/sluice-$(version).apk"
    (cd "$out" && zip -q unaligned.apk classes.dex)
    zipalign -f -p 4 "$out/unaligned.apk" "$apk"
    apksigner sign --ks "$key" --ks-pass pass:android --min-sdk-version $min_sdk "$apk" >&2
    zipalign -c -p 4 "$apk" >&2 || die "the APK is not aligned."
    apksigner verify --min-sdk-version $min_sdk "$apk" >&2 || die "the APK's signature is not valid."
    rm -f "$apk.idsig"
    echo "$apk"
}

main() {
    parse_arguments "$@"
    check_tools
    get_tools
    rm -rf "$out"
    mkdir -p "$out"
    link_resources
    compile_code
    add_engines
    make_apk
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
