#!/usr/bin/env bash
# The same load, once against Mayfly and once against another AMQP 1.0 broker, and the two reports side by side.
#   benches/loads/compare.sh LOAD OUT OTHER [FLAG…]
# LOAD: a file whose entities need no schedules, sessions or dead letters; OUT: a directory for the reports; OTHER: the other
# broker, as amqp://127.0.0.1:5672, which has the queues or makes them when they are used. Flags are those of the other:
# --key-name NAME, with its password in OTHER_SECRET. Mayfly is at MAYFLY_CONNECT (127.0.0.1:5310) and MAYFLY_AMQP
# (127.0.0.1:5672). ROUNDS (1) of both, one after the other, are reported; the last are compared.
set -euo pipefail
load=$1 out=$2 other=$3
shift 3
mayfly=${MAYFLY:-mayfly}
amqp=${MAYFLY_AMQP:-127.0.0.1:5672}
for round in $(seq "${ROUNDS:-1}"); do
  "$mayfly" load run "$load" --protocol amqp --amqp "$amqp" --report "$out/mayfly-$round"
  env ${OTHER_SECRET:+MAYFLY_SECRET="$OTHER_SECRET"} "$mayfly" load run "$load" --protocol amqp --amqp "$other" --entities existing \
    --report "$out/other-$round" "$@"
  "$mayfly" load compare "$out/mayfly-$round/report.json" "$out/other-$round/report.json"
done
