#!/usr/bin/env bash
# Builds Mayfly, starts a local three-node cluster and runs the demo job on it. Ends with a table
# that accounts for every event, and with exit code 0 only if the account balances.
#
#   deploy/local.sh             the demo
#   deploy/local.sh up          a cluster that stays up until Ctrl-C (flags of `mayfly up` may follow)
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/env.sh

say "building (the first build compiles RocksDB: about 20 minutes on two cores)"
cargo build --release --locked --workspace
if [ "${1:-}" = up ]; then
  shift
  exec "$CARGO_TARGET_DIR/release/mayfly" up "$@"
fi
say "running the demo"
exec "$CARGO_TARGET_DIR/release/mayfly" demo "$@"
