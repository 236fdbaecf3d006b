#!/usr/bin/env bash
# Builds the Debian package and checks that a second build elsewhere gives the same bytes, and that it installs and runs
# in a Debian that has nothing else. Needs root, a network and debootstrap for the last.
#   scripts/check-package.sh [--once]
# With --once it is built once only.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

twice=yes
case ${1-} in
'') ;;
--once) twice=no ;;
-h | --help) echo "usage: scripts/check-package.sh [--once]"; exit 0 ;;
*) usage_error "check-package.sh: unknown argument '$1' (see --help)." ;;
esac

# The time of the last commit stands for all times in the package.
SOURCE_DATE_EPOCH=$(git -C "$sluice_root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
readonly suite=bookworm mirror=http://deb.debian.org/debian
work=
chroot_dir=

clean_up() {
    [[ -z $chroot_dir ]] || umount "$chroot_dir/proc" 2>/dev/null || true
    [[ -z $work ]] || rm -rf "$work"
}

# Prints the package that the tree in DIR gives.
pack() {
    local dir=$1
    (cd "$dir" && cmake --preset package && cmake --build --preset package && cd build/package &&
        cpack -G DEB -B "$dir/build/package/packed") >&2
    find "$dir/build/package/packed" -maxdepth 1 -name '*.deb'
}

same_elsewhere() {
    local first=$1 second
    mkdir "$work/elsewhere"
    git -C "$sluice_root" ls-files -z | tar -C "$sluice_root" --null -T - -c | tar -x -C "$work/elsewhere"
    cp -a "$sluice_root/third_party" "$work/elsewhere/"
    second=$(pack "$work/elsewhere")
    cmp "$first" "$second" || die "the package differs when it is built in another folder."
    note "built in another folder, the package is the same: $(sha256sum <"$first" | cut -d' ' -f1)"
}

installs_and_runs() {
    local package=$1 text
    have debootstrap || die "debootstrap is needed (Debian's package has the same name)."
    chroot_dir="$work/system"
    debootstrap --variant=minbase "$suite" "$chroot_dir" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail -n 5 "$work/debootstrap.log" >&2; die "debootstrap failed."; }
    cp "$package" "$chroot_dir/sluice.deb"
    chroot "$chroot_dir" apt-get install -y -qq --no-install-recommends ./sluice.deb >"$work/install.log" 2>&1 ||
        { tail -n 5 "$work/install.log" >&2; die "the package does not install in a clean $suite."; }
    mount -t proc proc "$chroot_dir/proc"
    chroot "$chroot_dir" sluice --version >&2
    text=$(chroot "$chroot_dir" sluice run -p "Once upon a time" -n 16 --temp 0 --moe-stream --cache-mb 8 2>"$work/run.log") ||
        { cat "$work/run.log" >&2; die "the installed program does not run."; }
    [[ -n $text ]] || die "the installed program gave no text."
    note "installed in a clean $suite, it says: $text"
    umount "$chroot_dir/proc"
    chroot "$chroot_dir" apt-get purge -y -qq sluice >/dev/null 2>&1 || die "the package cannot be removed."
    [[ ! -e $chroot_dir/usr/bin/sluice ]] || die "the package was removed, and the program is still there."
}

trap clean_up EXIT
work=$(mktemp -d)
package=$(pack "$sluice_root")
[[ $twice == no ]] || same_elsewhere "$package"
installs_and_runs "$package"
