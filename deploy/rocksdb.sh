# Sourced by deploy/env.sh: RocksDB compiled once for every target directory and profile, in a third of the time that the
# build script of librocksdb-sys takes. Its sources are compiled a dozen at a time, as RocksDB's own `make unity.a` does:
# most of the work is its headers, which every file reads again. Sources are those of the crate that Cargo.lock pins, the
# flags the build script's, but for -O2, which is RocksDB's own choice.
#
# `cargo build` without this compiles RocksDB by that build script, into each target directory. A ROCKSDB_LIB_DIR that is
# set already is left alone.

# How many sources one translation unit takes in: fewer read the headers more often, more need gigabytes of memory.
rocksdb_sources_at_a_time=12

# What the build script defines for x86-64 Linux, with the processor of .cargo/config.toml.
rocksdb_flags=(
  -std=c++20 -O2 -fPIC -ffunction-sections -fdata-sections -w -include cstdint
  -march=x86-64-v2 -msse4.2 -mpclmul
  -DNDEBUG=1 -DLZ4=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DOS_LINUX
  -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT
  -DROCKSDB_AUXV_GETAUXVAL_PRESENT -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT
)

# The directory of a crate's sources, as Cargo.lock pins it.
crate_sources() {
  local host manifest
  host="$(rustc -vV | sed -n 's/^host: //p')"
  # What is for other platforms is not downloaded.
  manifest="$(cargo metadata --locked --format-version 1 --filter-platform "$host" \
    | grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^\"]*\"")"
  manifest="${manifest#*:\"}"
  dirname "${manifest%\"}"
}

# Compiles RocksDB into the directory that is named; what is there counts, because it appears all at once.
compile_rocksdb() {
  local library="$1" sources="$2" lz4="$3" work
  say "compiling RocksDB, once for this machine"
  # Of whoever was interrupted: the lock is ours.
  rm -rf "$library".??????
  work="$(mktemp -d "$library.XXXXXX")"
  # The crate brings the file with RocksDB's version along, made already.
  sed -n '\|util/build_version|!s|^ *\(.*\.cc\) *$|#include "rocksdb/\1"|p' "$sources/rocksdb_lib_sources.txt" \
    | split --lines "$rocksdb_sources_at_a_time" --additional-suffix .cc - "$work/"
  echo '#include "build_version.cc"' >"$work/version.cc"
  if ! (cd "$work" && printf '%s\0' *.cc | xargs --null --max-args 1 --max-procs "$(nproc)" \
    c++ "${rocksdb_flags[@]}" -I"$sources/rocksdb/include" -I"$sources/rocksdb" -I"$sources" -I"$lz4" -c \
    && ar crs librocksdb.a ./*.o && rm ./*.cc ./*.o); then
    rm -rf "$work"
    echo "mayfly: RocksDB did not compile; with MAYFLY_ROCKSDB=0 cargo compiles it, file by file" >&2
    return 1
  fi
  mv --no-target-directory "$work" "$library"
}

# Sets what makes cargo link the library that is there, or that is compiled first.
need_rocksdb() {
  if [ -n "${ROCKSDB_LIB_DIR:-}" ] || [ "${MAYFLY_ROCKSDB:-1}" = 0 ] || [ "$(uname -sm)" != 'Linux x86_64' ]; then
    return
  fi
  local sources lz4 key library cache="$HOME/.cache/mayfly"
  sources="$(crate_sources librocksdb-sys)"
  lz4="$(crate_sources lz4-sys)"
  key="$({ c++ --version; echo "$rocksdb_sources_at_a_time ${rocksdb_flags[*]}"; echo "${lz4##*/}"; } | sha256sum | cut -c 1-12)"
  library="$cache/${sources##*/}-$key"
  mkdir -p "$cache"
  # Two builds at once compile it once.
  exec 9>"$cache/rocksdb.lock"
  flock 9
  [ -d "$library" ] || compile_rocksdb "$library" "$sources" "$lz4/liblz4/lib"
  exec 9>&-
  export ROCKSDB_LIB_DIR="$library" ROCKSDB_STATIC=1
}
