#!/usr/bin/env bash
# Compiles the app's plain Java with its tests and runs them on this machine's JVM.
#   tests/android/run.sh FOLDER [PROGRAM]    FOLDER for classes; PROGRAM: sluice, without which some tests are skipped
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$1
program=${2:-}
readonly libraries=/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar

mkdir -p "$folder/classes"
mapfile -t sources < <(find "$root/apps/android/java/org/sluice/core" "$root/tests/android" -name '*.java' | sort)
javac -Xlint:all,-options -Werror -source 8 -target 8 -encoding UTF-8 -cp "$libraries" -d "$folder/classes" "${sources[@]}"

classes=()
for source in "${sources[@]}"; do
    name=$(basename "$source" .java)
    [[ $name != *Test ]] || [[ -n ${ONLY:-} && $name != "$ONLY" ]] || classes+=("org.sluice.core.$name")
done
exec java -cp "$folder/classes:$libraries" -Dsluice.program="$program" \
    -Dsluice.model="$root/models/tiny-moe-stories-54m-Q4_K_M.gguf" org.junit.runner.JUnitCore "${classes[@]}"
