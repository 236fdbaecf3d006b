#!/usr/bin/env bash
# Runs a command in a memory cgroup of its own (v1 or v2) of so many MiB. Needs root.
#   bench/under-ceiling.sh MIB COMMAND [ARGUMENT...]
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: under-ceiling.sh MIB COMMAND [ARGUMENT...]" >&2
    exit 2
fi
limit=$(($1 << 20))
shift
if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/sluice-bench-$$
    limit_file=memory.limit_in_bytes
else
    group=/sys/fs/cgroup/sluice-bench-$$
    limit_file=memory.max
fi
mkdir "$group"
trap 'rmdir "$group"' EXIT
echo "$limit" >"$group/$limit_file"
[ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
code=0
(
    echo "$BASHPID" >"$group/cgroup.procs"
    exec "$@"
) || code=$?
exit "$code"
