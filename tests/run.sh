#!/usr/bin/env bash
# Every test: format, lints, and all tests of the workspace (rule tables, properties, simulation,
# end-to-end with real processes), and the official SDKs against a cluster. Needs no cluster running
# and leaves nothing running.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/env.sh

say "format"
cargo fmt --all --check
# The clients of other brokers are a workspace of their own, whose lock follows our manifests. Cargo
# looks into the registry's index for it, which not every machine reaches.
rivals=benches/rivals/Cargo.toml
if ! told="$(cargo update --quiet --workspace --locked --manifest-path "$rivals" 2>&1)"; then
  echo "$told" >&2
  if [[ "$told" == *'--locked was passed'* ]]; then
    echo "mayfly: mend it with: cargo update --workspace --manifest-path $rivals" >&2
    exit 1
  fi
  echo "mayfly: whether the lock of $rivals is up to date was not looked at" >&2
fi
tests/advisories.py --self-check
say "build"
cargo build --release --locked --workspace
say "lints"
cargo clippy --release --locked --workspace --all-targets --features simulation/raft -- -D warnings
# Property tests draw the same cases every time, so that what fails is the change at hand;
# tests/long.sh draws others.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"
# A test that hangs fails: the slowest of the binaries takes three minutes.
limit='timeout --foreground --verbose --kill-after=30 1200'
host="$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)"
export "CARGO_TARGET_${host}_RUNNER=$limit"
say "tests"
need_python
need_prometheus
cargo test --release --locked --workspace --no-fail-fast "$@"
say "the official SDKs"
$limit python3 tests/sdk/run.py
say "the console in Chromium"
$limit python3 -B tests/console/run.py
say "what deploy/ makes, but for what takes a fresh Debian or a cluster behind balancers"
$limit python3 -B tests/deploy/run.py --quick
say "all passed"
