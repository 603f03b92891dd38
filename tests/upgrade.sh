#!/usr/bin/env bash
# A rolling upgrade from the previous release, and back, under load: every node of a cluster of it is upgraded, taken
# back and upgraded again, until the cluster's feature level rises and the previous release must refuse its data. As
# many minutes as the first argument says (default 3); what follows goes to `mayfly chaos`.
#
#   tests/upgrade.sh
#   tests/upgrade.sh 20 --seed 7 --fault upgrade,downgrade,kill,partition
#
# The previous release is built once from its commit, into the cache; MAYFLY_PREVIOUS names another binary in its
# place. The binary of today is built as well, unless MAYFLY_BIN names one.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/env.sh

# 0.1.0.
commit=57c6323

minutes="${1:-3}"
[ $# -eq 0 ] || shift
case "$minutes" in
  '' | *[!0-9.]*) echo "usage: tests/upgrade.sh [minutes] [flags of mayfly chaos]" >&2; exit 2 ;;
esac

if [ -z "${MAYFLY_PREVIOUS:-}" ]; then
  MAYFLY_PREVIOUS="${XDG_CACHE_HOME:-$HOME/.cache}/mayfly/previous-$commit/mayfly"
  if [ ! -x "$MAYFLY_PREVIOUS" ]; then
    say "build the previous release, $commit"
    tree="$(mktemp -d)"
    trap 'rm -rf "$tree"' EXIT
    git archive "$commit" | tar x -C "$tree"
    (cd "$tree" && CARGO_TARGET_DIR="$tree/target" \
      cargo build --release --locked --workspace --bin mayfly)
    mkdir -p "$(dirname "$MAYFLY_PREVIOUS")"
    # At once: whoever is interrupted leaves no half of it.
    cp "$tree/target/release/mayfly" "$MAYFLY_PREVIOUS.$$"
    mv "$MAYFLY_PREVIOUS.$$" "$MAYFLY_PREVIOUS"
  fi
fi
if [ -z "${MAYFLY_BIN:-}" ]; then
  say "build"
  cargo build --release --locked --workspace --bin mayfly
  MAYFLY_BIN="$CARGO_TARGET_DIR/release/mayfly"
fi
say "upgrade from $("$MAYFLY_PREVIOUS" --version) to $("$MAYFLY_BIN" --version), and back, $minutes minutes"
"$MAYFLY_BIN" chaos --previous "$MAYFLY_PREVIOUS" --minutes "$minutes" "$@"
