# Sourced by deploy/local.sh and tests/run.sh: installs what a fresh Debian machine with Rust lacks,
# and chooses where build artefacts go. Nothing here starts anything.

# What comes next, and the seconds since the script was started.
say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

# Prerequisites beyond cargo: a C++ compiler for RocksDB and libclang for its bindings.
need_packages() {
  local missing=()
  command -v c++ >/dev/null || missing+=(g++)
  command -v make >/dev/null || missing+=(make)
  # Its bindings for C++ (libclang-cpp) are another library, which LLVM's tools bring along.
  compgen -G '/usr/lib/llvm-*/lib/libclang[.-][0-9s]*' >/dev/null || missing+=(libclang-dev)
  install_packages "${missing[@]}"
}

# What the tests of the SDKs build their private environment with, and make certificates with.
need_python() {
  python3 -c 'import ensurepip' 2>/dev/null || install_packages python3 python3-venv
  command -v openssl >/dev/null || install_packages openssl
}

# What tries alerts and dashboards. Without what it recommends, which would measure this machine.
need_prometheus() {
  { command -v prometheus && command -v promtool; } >/dev/null ||
    install_packages --no-install-recommends prometheus
}

install_packages() {
  [ $# -eq 0 ] && return
  say "installing $*"
  local sudo=''
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "mayfly: missing packages: $*; install them as root: apt-get install $*" >&2
      exit 1
    }
    sudo=sudo
  fi
  $sudo apt-get update -q && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q "$@"
}

command -v cargo >/dev/null || {
  echo "mayfly: cargo is missing; install Rust 1.88 or newer from your distribution or rustup" >&2
  exit 1
}

# RocksDB takes minutes to compile: keep artefacts outside the clone, so that a fresh clone does not
# build it again.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/mayfly/target}"
mkdir -p "$CARGO_TARGET_DIR"
need_packages
source "$(dirname "${BASH_SOURCE[0]}")/rocksdb.sh"
need_rocksdb
