#!/usr/bin/env bash
# Installs what a build needs on Debian and Ubuntu, and only what is missing.
# A run that finds everything in place needs neither root nor network.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# command:package. Any version on the PATH will do; CMake checks what it needs.
readonly tools=(g++:build-essential make:build-essential cmake:cmake ninja:ninja-build git:git ccache:ccache
    pkg-config:pkg-config)
readonly libraries=(libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev liburing-dev libssl-dev
    ca-certificates)
readonly test_libraries=(libgtest-dev libgmock-dev)
readonly android_tools=(java:openjdk-17-jdk-headless javac:openjdk-17-jdk-headless keytool:openjdk-17-jdk-headless
    aapt2:aapt zipalign:zipalign apksigner:apksigner dexdump:dexdump zip:zip unzip:unzip node:nodejs npm:npm
    qemu-aarch64-static:qemu-user-static)
readonly android_libraries=(android-framework-res junit4)

usage() {
    cat <<EOF
usage: scripts/install-deps.sh [--tests] [--android]
  --tests    what the tests and benchmarks need as well
  --android  what the Android app and its tests need as well
EOF
}

with_tests=no
with_android=no

parse_arguments() {
    local argument
    for argument in "$@"; do
        case $argument in
        -h | --help) usage; exit 0 ;;
        --tests) with_tests=yes ;;
        --android) with_android=yes ;;
        *) usage_error "install-deps.sh: unknown argument '$argument' (see --help)." ;;
        esac
    done
}

is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# Prints the missing packages, one a line.
missing_packages() {
    local entry package wanted=("${libraries[@]}") wanted_tools=("${tools[@]}")
    [[ $with_tests == no ]] || wanted+=("${test_libraries[@]}")
    if [[ $with_android == yes ]]; then
        wanted+=("${android_libraries[@]}")
        wanted_tools+=("${android_tools[@]}")
    fi
    for entry in "${wanted_tools[@]}"; do
        have "${entry%%:*}" || echo "${entry#*:}"
    done
    for package in "${wanted[@]}"; do
        is_installed "$package" || echo "$package"
    done
}

# npm brings llama.cpp's sources, which git can do, too, and the libraries of the report pages, which can be missing.
npm_is_wanted() {
    ! have npm || return 1
    [[ ! -e $llama_dir/include/llama.h ]] || { [[ $with_tests == yes && (! -e $page_libraries_dir || ! -e $page_tools_dir) ]]; }
}

# The tests of the pages are skipped without a browser.
browser_is_wanted() {
    [[ $with_tests == yes ]] && ! have chromium && ! have chromium-browser && ! have google-chrome
}

# The fuzzer (scripts/test.sh --preset fuzz) is clang's: 43 MB to fetch, 260 MB on disk.
fuzzer_is_wanted() { [[ $with_tests == yes ]] && ! have clang; }

as_root() {
    if ((EUID == 0)); then
        "$@"
    elif [[ -t 2 ]]; then # someone is there to type a password
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

can_be_root() { ((EUID == 0)) || have sudo; }

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2; }

apt_install() { apt install -y -qq --no-install-recommends "$@"; }

# Is each of these packages in the lists that apt has?
apt_knows() {
    local package
    for package in "$@"; do
        LC_ALL=C apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || return 1
    done
}

install_packages() {
    note "installing: $*"
    if apt_knows "$@" && apt_install "$@"; then return; fi
    apt update -qq && apt_install "$@"
}

main() {
    parse_arguments "$@"
    if ! have dpkg-query || ! have apt-get; then
        note "this system has no apt: you need a C++20 compiler, CMake 3.25, Ninja, git, and the libraries fmt, CLI11, nlohmann-json and tl-expected (and liburing, for io_uring)$([[ $with_tests == no ]] || echo ', GoogleTest with GoogleMock and Google Benchmark'); going on as if they were there."
        return
    fi

    local packages
    mapfile -t packages < <(missing_packages | sort -u)
    if ((${#packages[@]})); then
        can_be_root || die "these packages are missing, and installing them needs root: ${packages[*]}"
        install_packages "${packages[@]}" || die "apt could not install all of: ${packages[*]}"
    fi
    if npm_is_wanted && can_be_root; then
        install_packages nodejs npm ||
            note "no npm from apt; llama.cpp will be fetched with git, and the build will have no report pages."
    fi
    if fuzzer_is_wanted && can_be_root; then
        install_packages clang libclang-rt-dev || note "no clang from apt; the fuzzer will be left out."
    fi
    if browser_is_wanted && can_be_root; then
        install_packages chromium || note "no chromium from apt; the tests of the pages will be skipped."
    fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
