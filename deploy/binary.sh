# Sourced by deploy/local.sh, deploy/package.sh and tests: finds a mayfly that is there already.

# Prints its path: what MAYFLY_BIN names, else what was built from this clone, else what is installed. Fails if
# there is none, or if MAYFLY_BIN names what is no program.
find_binary() {
  if [ -n "${MAYFLY_BIN:-}" ]; then
    [ -x "$MAYFLY_BIN" ] || { echo "mayfly: MAYFLY_BIN names '$MAYFLY_BIN', which is no program" >&2; return 1; }
    realpath "$MAYFLY_BIN"
    return
  fi
  local built="${CARGO_TARGET_DIR:-$HOME/.cache/mayfly/target}/release/mayfly"
  if [ -x "$built" ]; then
    realpath "$built"
    return
  fi
  command -v mayfly
}

# As find_binary, but for one that was built before a source changed: whoever changes Mayfly wants to see the change.
current_binary() {
  local found
  found="$(find_binary)" || return 1
  if [ -n "$(find crates Cargo.toml Cargo.lock -newer "$found" -name '[A-Za-z]*.*' -type f -print -quit)" ] &&
    [[ "$found" == */release/mayfly ]] && command -v cargo >/dev/null; then
    echo "mayfly: sources are newer than '$found'" >&2
    return 1
  fi
  echo "$found"
}
