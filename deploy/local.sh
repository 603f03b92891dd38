#!/usr/bin/env bash
# Starts a local three-node cluster and runs the demo job on it. Ends with a table that accounts for every event, and
# with exit code 0 only if the account balances.
#
#   deploy/local.sh             the demo
#   deploy/local.sh up          a cluster that stays up until Ctrl-C (flags of `mayfly up` may follow)
#   deploy/local.sh --build …   the same, built from source before
#
# It takes the mayfly that MAYFLY_BIN names, the one that was built from this clone if no source is newer, or one that is
# installed; without any of these it builds.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/binary.sh

build() {
  source deploy/env.sh
  say "building (the first build compiles RocksDB: about 15 minutes on two cores)"
  cargo build --release --locked --workspace
  mayfly="$CARGO_TARGET_DIR/release/mayfly"
}

if [ "${1:-}" = --build ]; then
  shift
  build
elif [ -n "${MAYFLY_BIN:-}" ]; then
  # Who names one wants that one.
  mayfly="$(find_binary)"
else
  mayfly="$(current_binary)" || build
fi
echo "== $mayfly ($("$mayfly" --version))"
if [ "${1:-}" = up ]; then
  shift
  exec "$mayfly" up "$@"
fi
exec "$mayfly" demo "$@"
