#!/bin/sh
# Asks each node once a second whether it can serve (/health/ready, its certificate checked), writes what nginx.conf
# includes, and has nginx read it when it changed. Runs until it is ended:
#
#   nginx-health.sh /run/mayfly-health /etc/mayfly/authority.pem node1 node2 node3
#
# With --once it writes the files and ends, as nginx's ExecStartPre: they have to be there when it starts.
set -eu
once=no
if [ "$1" = --once ]; then once=yes; shift; fi
directory="$1" authority="$2"
shift 2
mkdir -p "$directory"

while :; do
  changed=no
  asked="$directory/.asked"
  : >"$asked"
  # At the same time, so that one that is silent does not hold up the others.
  for node in "$@"; do
    (
      if curl --silent --fail --output /dev/null --max-time 2 --cacert "$authority" "https://$node:5300/health/ready"; then
        echo "$node" >>"$asked"
      fi
    ) &
  done
  wait
  for port in 5671 5300; do
    for node in "$@"; do
      if grep -qx "$node" "$asked"; then
        echo "server $node:$port max_fails=1 fail_timeout=2s;"
      else
        # Kept, so that there is a server at all, and given nothing.
        echo "server $node:$port down;"
      fi
    done >"$directory/.next"
    if ! cmp -s "$directory/.next" "$directory/$port.conf"; then
      mv "$directory/.next" "$directory/$port.conf"
      changed=yes
    fi
  done
  [ "$once" = no ] || exit 0
  if [ "$changed" = yes ]; then nginx ${NGINX_CONF:+-c "$NGINX_CONF"} -s reload || true; fi
  sleep 1
done
