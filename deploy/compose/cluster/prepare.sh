#!/usr/bin/env bash
# Makes ./private: a secret, an authority, and a certificate for each node, readable by the containers' user and by
# nobody else. What is there already stays. It takes a mayfly on this machine, or MAYFLY_BIN.
set -euo pipefail
cd "$(dirname "$0")"
mayfly="${MAYFLY_BIN:-mayfly}"
command -v "$mayfly" >/dev/null || { echo "mayfly: there is no '$mayfly' on this machine; name one as MAYFLY_BIN" >&2; exit 1; }
umask 077
mkdir -p private
[ -e private/secret ] || openssl rand -base64 32 >private/secret
[ -e private/certs/authority.pem ] || "$mayfly" cert authority --dir private/certs
for node in 1 2 3; do
  [ -e "private/certs/node-$node.pem" ] || "$mayfly" cert node "$node" "node$node" localhost 127.0.0.1 --dir private/certs
done
chmod 644 private/certs/*.pem
# The containers' user is no user of this machine; only root gives files away.
if [ "$(id -u)" = 0 ]; then
  chown 65532:65532 private/secret private/certs/node-*.key
else
  echo "mayfly: run as root: chown 65532:65532 $PWD/private/secret $PWD/private/certs/node-*.key" >&2
fi
