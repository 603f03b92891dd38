#!/usr/bin/env bash
# Fault experiments one after the other, each of so many minutes, and a table of what came of them in
# Markdown: on standard output and in OUT/CHAOS.md. tests/CHAOS.md holds a table that was made so.
#
#   tests/chaos.sh                       three experiments of a minute, of seeds drawn by chance
#   tests/chaos.sh -n 10 -m 20           ten of twenty minutes
#   tests/chaos.sh -m 20 7 8 9           of these seeds
#   tests/chaos.sh -o out -- --nodes 5   what follows -- goes to each `mayfly chaos`
#
# It builds the binary, unless MAYFLY_BIN names one. Exit code 1 if any promise was broken.
set -euo pipefail

usage() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

minutes=1 runs=3 out='' seeds=()
while [ $# -gt 0 ]; do
  case "$1" in
    -m) minutes="${2:?-m takes minutes}"; shift 2 ;;
    -n) runs="${2:?-n takes a number of runs}"; shift 2 ;;
    -o) out="${2:?-o takes a directory}"; shift 2 ;;
    --) shift; break ;;
    *[!0-9]* | '') usage ;;
    *) seeds+=("$1"); shift ;;
  esac
done
if [ "${#seeds[@]}" -eq 0 ]; then
  for ((run = 0; run < runs; run++)); do seeds+=("$((RANDOM * 32768 + RANDOM))"); done
fi
out="${out:-$(mktemp -d)}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"

cd "$(dirname "$0")/.."
if [ -z "${MAYFLY_BIN:-}" ]; then
  source deploy/env.sh
  cargo build --release --locked -p mayfly
  MAYFLY_BIN="$CARGO_TARGET_DIR/release/mayfly"
fi

broken=0
for seed in "${seeds[@]}"; do
  printf '\n== seed %s, %s minutes, into %s\n' "$seed" "$minutes" "$out/$seed" >&2
  code=0
  "$MAYFLY_BIN" chaos --seed "$seed" --minutes "$minutes" --report "$out/$seed" "$@" >&2 || code=$?
  [ "$code" -ne 2 ] || exit 2
  [ "$code" -ne 130 ] || break
  [ "$code" -eq 0 ] || broken=1
  [ -e "$out/$seed/report.json" ] || { echo "mayfly: seed $seed left no report" >&2; exit 1; }
done
python3 tests/chaos/table.py "$out" "${seeds[@]}" | tee "$out/CHAOS.md"
exit "$broken"
