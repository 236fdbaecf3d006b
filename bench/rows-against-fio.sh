#!/usr/bin/env bash
# Rows of a prompt against what fio gets from the same file: 16 KiB reads, queue depth 64, interleaved.
#   bench/rows-against-fio.sh ROW_PREFILL MODEL CACHE_MIB THREADS UBATCHES ROUNDS
set -euo pipefail
(($# == 6)) || { echo "usage: bench/rows-against-fio.sh ROW_PREFILL MODEL CACHE_MIB THREADS UBATCHES ROUNDS" >&2; exit 2; }
row_prefill=$1 model=$2 cache=$3 threads=$4 ubatches=$5 rounds=$6
command -v fio >/dev/null || { echo "rows-against-fio: fio is not installed (Debian package fio)" >&2; exit 1; }

fio_mib_per_s() {
    fio --name=rows --filename="$model" --readonly --direct=1 --rw=randread --bs=16k --ioengine=io_uring --iodepth=64 \
        --runtime=3 --time_based --output-format=json | python3 -c 'import json,sys; print(json.load(sys.stdin)["jobs"][0]["read"]["bw_bytes"] / 1048576)'
}

echo "| round | fio MiB/s | rows MiB/s | rows / fio | reads |"
echo "|---|---|---|---|---|"
for ((round = 1; round <= rounds; ++round)); do
    bound=$(fio_mib_per_s)
    "$row_prefill" "$model" "$cache" "$threads" "$ubatches" |
        python3 -c 'import json,sys; r = json.load(sys.stdin); b = float(sys.argv[1])
print("| %s | %.0f | %.0f | %.2f | %d |" % (sys.argv[2], b, r["mib_per_s"], r["mib_per_s"] / b, r["reads"]))' "$bound" "$round"
done
