#!/usr/bin/env bash
# Experiments that take minutes each, and an hour of fuzzing (MAYFLY_FUZZ_SECONDS); tests/LONG.md holds
# their last results.
# They start clusters of their own on this machine, and leave nothing running.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/env.sh

say "build"
cargo build --release --locked --workspace
mayfly="$CARGO_TARGET_DIR/release/mayfly"

say "property tests, other cases than tests/run.sh draws"
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-$RANDOM$RANDOM}"
echo "PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED repeats it"
PROPTEST_CASES=100000 cargo test --release --locked --workspace --test model --test rebuilt

say "every AMQP decoder against changed input, for an hour"
export MAYFLY_FUZZ_SEED="${MAYFLY_FUZZ_SEED:-$RANDOM$RANDOM}"
MAYFLY_FUZZ_SECONDS="${MAYFLY_FUZZ_SECONDS:-3600}" \
  cargo test --release --locked --workspace --lib -- --nocapture no_input_breaks_a_decoder

say "experiments"
cargo test --release --locked --workspace --test long -- --ignored --nocapture --test-threads 1

say "what benches/RESULTS.md is made by, small"
export MAYFLY_BIN="$mayfly"
benches/scale.py --quick
benches/lifetime.py --share 0.02
benches/compare.py --seconds 5

data="$(mktemp -d)"
"$mayfly" up --development --base-offset 20000 --memory 512 --data-dir "$data" >"$data/up.log" 2>&1 &
up=$!
trap 'kill -INT "$up" 2>/dev/null || true; wait "$up" || true; rm -rf "$data"' EXIT
export MAYFLY_CONNECT=127.0.0.1:25310,127.0.0.1:26310,127.0.0.1:27310
until "$mayfly" cluster status >/dev/null 2>&1; do
  kill -0 "$up" || { cat "$data/up.log" >&2; exit 1; }
  sleep 0.2
done

say "bulk work beside a queue in steady use"
"$mayfly" bench neighbour --messages 1000000
"$mayfly" bench neighbour --messages 5000000 --with delete
"$mayfly" bench neighbour --messages 5000000 --with default
say "queues created, used and deleted"
"$mayfly" bench churn --cycles 100000 --move-clock
