#!/usr/bin/env bash
# Simulated clusters for as many minutes as the argument says (default 480): half of them over the model
# of Raft, in every kind of life, half over replication as it is. Prints seeds, simulated hours and
# faults; ends at the first broken promise with the command that replays it. Before that, for a quarter of
# an hour or so, every official SDK with all of it over TLS, and while each node of a cluster dies again and
# again; and everything that deploy/ makes.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/env.sh

minutes="${1:-480}"
case "$minutes" in
  '' | *[!0-9]*) echo "usage: tests/nightly.sh [minutes]" >&2; exit 2 ;;
esac

say "known vulnerabilities of what the lock files name"
# 3: the database was not to be had, which it says.
tests/advisories.py || [ $? -eq 3 ]
say "build"
cargo build --release --locked --workspace
say "the official SDKs over TLS: AMQP, then WebSockets"
need_python
python3 tests/sdk/run.py --transport amqps
python3 tests/sdk/run.py --transport wss
say "the official SDKs, while every node is killed and started again five times"
python3 tests/sdk/run.py --rounds 5
say "fault experiments of a minute each that tests/run.sh leaves out"
cargo test --release --locked --workspace --test chaos -- --ignored --test-threads 1
say "a rolling upgrade from the previous release, and back, under load"
tests/upgrade.sh 3
say "all disks are lost under load and faults, and the last backup is restored"
for tls in '' --tls --keys; do
  # shellcheck disable=SC2086
  "$CARGO_TARGET_DIR/release/mayfly" chaos --restore $tls --minutes 1.5
done
say "an hour of health, in which no alert fires; then faults, and the right ones do"
need_prometheus
MAYFLY_HEALTHY_MINUTES=60 cargo test --release --locked --workspace --test alerts
say "packages on a fresh Debian, the image, compose files, the chart, load balancers"
python3 -B tests/deploy/run.py
say "build the simulations, on a tokio whose time can stand still"
cargo build --release --locked --workspace --features simulation/raft \
  --bin simulation --bin simulation-raft
simulation="$CARGO_TARGET_DIR/release/simulation"
say "what must hold of replication as it is, and what its simulation must find"
cargo test --release --locked --workspace --features simulation/raft --test raft

share=$((minutes / 8))
for life in '' --storm --topics '--storm --nodes 5'; do
  say "the core over a model of Raft, $share minutes: a swarm ${life:+of lives with $life}"
  # shellcheck disable=SC2086
  "$simulation" $life --swarm --seeds 200 --minutes "$share"
done
share=$((minutes / 6))
for life in '' '--spares 1' '--naps 6'; do
  say "replication as it is, $share minutes${life:+, with $life}"
  # shellcheck disable=SC2086
  "$simulation-raft" $life --seeds 40 --minutes "$share"
done
say "all hold"
