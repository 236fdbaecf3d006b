#!/usr/bin/env bash
# Runs a command in control groups of its own (version 1 or 2): with a ceiling on memory of so many MiB (0: none), and
# if asked for with a limit on what it reads from the disk that FILE is on, and on how many processors' worth of time
# it gets. MB are 10^6 bytes. Needs root.
#   bench/under-ceiling.sh [--cpus N] [--read-mb-per-s N --file FILE] MIB COMMAND [ARGUMENT...]
# Exits as the command does; with 1 if there can be no such group, with 2 if called wrongly.
set -euo pipefail

root=/sys/fs/cgroup
groups=()
read_mb_per_s=0
cpus=0
file=

usage_error() {
    echo "usage: under-ceiling.sh [--cpus N] [--read-mb-per-s N --file FILE] MIB COMMAND [ARGUMENT...]" >&2
    exit 2
}

die() {
    echo "under-ceiling: $*" >&2
    exit 1
}

is_number() { [[ $1 =~ ^[0-9]{1,9}$ ]]; }

# A group is gone when its last process is; io was switched on for groups by us if at all.
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    local group
    for group in ${groups[@]+"${groups[@]}"}; do rmdir "$group" || true; done
    [[ -z ${switched_on:-} ]] || echo -io >"$switched_on" || true
}

# Makes our group in a hierarchy, unless it is there from the other limit; sets `group`.
make_group() {
    group=$1/sluice-bench-$$
    [[ ! -d $group ]] || return 0
    mkdir "$group" 2>/dev/null || die "cannot make a control group in $1: this needs root."
    groups+=("$group")
}

limit_memory() {
    local limit=$(($1 << 20))
    if [[ -d $root/memory ]]; then
        make_group "$root/memory"
        echo "$limit" >"$group/memory.limit_in_bytes"
    else
        make_group "$root"
        [[ -e $group/memory.max ]] || die "control groups cannot limit memory here: $group has no memory.max."
        echo "$limit" >"$group/memory.max"
        [[ ! -e $group/memory.swap.max ]] || echo 0 >"$group/memory.swap.max"
    fi
}

# MAJOR:MINOR of the disk that a file's file system is on: the kernel limits whole disks, not partitions.
disk_of() {
    local device source
    # Where file systems are mounted over each other the last one is seen.
    device=$(findmnt -nvo MAJ:MIN -T "$1" | tail -n 1) || die "cannot tell which file system $1 is on."
    device=${device// /}
    if [[ ! -e /sys/dev/block/$device ]]; then # a file system with a number of its own, such as btrfs
        source=$(findmnt -nvo SOURCE -T "$1" | tail -n 1)
        device=$(lsblk -dno MAJ:MIN "$source" 2>/dev/null) ||
            die "cannot limit reads of $1: its file system ($source) is not on a disk."
        device=${device// /}
    fi
    [[ ! -e /sys/dev/block/$device/partition ]] || device=$(cat "/sys/dev/block/$device/../dev")
    echo "$device"
}

# The place of version 2 where io can be limited, if any.
unified() {
    local dir
    for dir in "$root" "$root/unified"; do
        if grep -qsw io "$dir/cgroup.controllers"; then
            echo "$dir"
            return
        fi
    done
    die "control groups cannot limit reads here: neither blkio (version 1) nor io (version 2) is in $root."
}

limit_reads() {
    local bytes=$(($1 * 1000000)) disk dir
    disk=$(disk_of "$2")
    if [[ -e $root/blkio/blkio.throttle.read_bps_device ]]; then
        make_group "$root/blkio"
        echo "$disk $bytes" >"$group/blkio.throttle.read_bps_device" ||
            die "the kernel does not limit reads of disk $disk, which $2 is on."
        return
    fi
    dir=$(unified)
    if ! grep -qw io "$dir/cgroup.subtree_control"; then
        echo +io >"$dir/cgroup.subtree_control" || die "cannot switch io on for groups of $dir: this needs root."
        switched_on=$dir/cgroup.subtree_control
    fi
    make_group "$dir"
    echo "$disk rbps=$bytes" >"$group/io.max" || die "the kernel does not limit reads of disk $disk, which $2 is on."
}

# Of each tenth of a second so many processors' worth, the period that schedulers of containers use.
limit_cpus() {
    local period=100000 quota
    quota=$(awk -v n="$1" -v p=$period 'BEGIN { printf "%d", n * p }')
    if [[ -e $root/cpu/cpu.cfs_quota_us ]]; then
        make_group "$root/cpu"
        echo $period >"$group/cpu.cfs_period_us"
        echo "$quota" >"$group/cpu.cfs_quota_us"
    else
        make_group "$root"
        [[ -e $group/cpu.max ]] || die "control groups cannot limit processors here: $group has no cpu.max."
        echo "$quota $period" >"$group/cpu.max"
    fi
}

while [[ ${1:-} == --* ]]; do
    (($# > 1)) || usage_error
    case $1 in
    --read-mb-per-s) read_mb_per_s=$2 ;;
    --cpus) cpus=$2 ;;
    --file) file=$2 ;;
    *) usage_error ;;
    esac
    shift 2
done
(($# > 1)) || usage_error
[[ $cpus =~ ^[0-9]{1,4}(\.[0-9]{1,3})?$ ]] || usage_error
if ! is_number "$1" || ! is_number "$read_mb_per_s"; then usage_error; fi
((read_mb_per_s == 0)) || [[ -n $file ]] || usage_error
((read_mb_per_s == 0)) || [[ -e $file ]] || die "there is no file $file."

trap cleanup EXIT
[[ $cpus == 0 ]] || limit_cpus "$cpus"
(($1 == 0)) || limit_memory "$1"
((read_mb_per_s == 0)) || limit_reads "$read_mb_per_s" "$file"
shift
code=0
(
    for group in ${groups[@]+"${groups[@]}"}; do echo "$BASHPID" >"$group/cgroup.procs"; done
    exec "$@"
) || code=$?
exit "$code"
