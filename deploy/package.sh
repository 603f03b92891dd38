#!/usr/bin/env bash
# Makes what Mayfly is installed from, for the architecture of the binary it is made of:
#
#   deploy/package.sh deb      a Debian package: binary, systemd unit, configuration, manual pages, completions
#   deploy/package.sh tar      the same as a .tar.gz for any Linux with a C library that is not older
#   deploy/package.sh image    an image as an archive of OCI and of Docker: the binary and the libraries it is linked to
#   deploy/package.sh          all three
#
#   --binary FILE   a mayfly that is there already; otherwise MAYFLY_BIN, one on PATH, or the one that was built
#   --output DIR    where to put them; by default dist/
#   --libraries DIR where the image's libraries are taken from, as in an unpacked root of another
#                   architecture; by default /
#
# The same binary gives the same bytes: times are the commit's, or SOURCE_DATE_EPOCH. Packages are put
# together by dpkg-deb: cargo-deb would compile a tool of its own for minutes to do the same, and knows nothing
# of the other two, which hold the same files.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/binary.sh

output=dist libraries=/ kinds=()
while [ $# -gt 0 ]; do
  case "$1" in
    --binary) MAYFLY_BIN="$2"; shift 2 ;;
    --output) output="$2"; shift 2 ;;
    --libraries) libraries="$2"; shift 2 ;;
    deb | tar | image) kinds+=("$1"); shift ;;
    *) echo "mayfly: deploy/package.sh does not know '$1'; see its head" >&2; exit 2 ;;
  esac
done
[ ${#kinds[@]} -gt 0 ] || kinds=(deb tar image)

binary="$(find_binary)" || {
  echo "mayfly: there is no binary; build one (cargo build --release --locked) or name one: --binary FILE" >&2
  exit 1
}
for tool in readelf strip tar gzip; do
  command -v "$tool" >/dev/null || { echo "mayfly: $tool is missing; install binutils, tar and gzip" >&2; exit 1; }
done
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
machine="$(readelf -h "$binary" | sed -n 's/^ *Machine: *//p')"
case "$machine" in
  *X86-64*) arch=amd64 ;;
  *AArch64*) arch=arm64 ;;
  *) echo "mayfly: '$binary' is for '$machine'; packages are for amd64 and arm64" >&2; exit 1 ;;
esac
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$output"
output="$(cd "$output" && pwd)"
umask 022

# The libraries it is linked to, by their names, and what its interpreter is called.
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
interpreter() { readelf -l "$1" | sed -n 's/.*interpreter: \(.*\)\]/\1/p'; }
# The newest version of a symbol of the C library that it asks for, as in 2.34.
glibc() { readelf -V "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | sed s/GLIBC_//; }

# Names of functions stay: a panic tells where it was.
strip --strip-debug -o "$work/mayfly" "$binary"
chmod 755 "$work/mayfly"

# What the binary tells of itself; asked of it, so that of another architecture it takes an emulator.
described() {
  [ -d "$work/described" ] && return
  mkdir -p "$work/described/man"
  "$work/mayfly" man "$work/described/man"
  for shell in bash zsh fish; do "$work/mayfly" completions "$shell" >"$work/described/$shell"; done
}

# Everything below a folder: owned by root, of one time, in one order.
archive() { # FOLDER NAME
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -c "$2"
}

deb() {
  command -v dpkg-deb >/dev/null || { echo "mayfly: dpkg-deb is missing; it comes with Debian" >&2; exit 1; }
  command -v dpkg-shlibdeps >/dev/null || { echo "mayfly: dpkg-shlibdeps is missing; install dpkg-dev" >&2; exit 1; }
  described
  local root="$work/deb" page
  mkdir -p "$root/DEBIAN" "$work/shlibdeps/debian"
  install -D -m 755 "$work/mayfly" "$root/usr/bin/mayfly"
  install -D -m 644 deploy/package/mayfly.service "$root/lib/systemd/system/mayfly.service"
  install -D -m 640 deploy/package/mayfly.toml "$root/etc/mayfly/mayfly.toml"
  install -D -m 644 "$work/described/bash" "$root/usr/share/bash-completion/completions/mayfly"
  install -D -m 644 "$work/described/zsh" "$root/usr/share/zsh/vendor-completions/_mayfly"
  install -D -m 644 "$work/described/fish" "$root/usr/share/fish/vendor_completions.d/mayfly.fish"
  install -D -m 644 deploy/package/debian/copyright "$root/usr/share/doc/mayfly/copyright"
  gzip -9nc CHANGELOG.md >"$root/usr/share/doc/mayfly/changelog.gz"
  install -D -m 644 -t "$root/usr/share/doc/mayfly/examples/prometheus" deploy/prometheus/mayfly-alerts.yml
  install -D -m 644 -t "$root/usr/share/doc/mayfly/examples/grafana" deploy/grafana/*.json
  mkdir -p "$root/usr/share/man/man1"
  for page in "$work"/described/man/*.1; do
    gzip -9nc "$page" >"$root/usr/share/man/man1/$(basename "$page").gz"
  done
  install -m 755 deploy/package/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
  # The package manager keeps what an administrator changed there.
  echo /etc/mayfly/mayfly.toml >"$root/DEBIAN/conffiles"
  # Which packages have the libraries, and since when the symbols.
  printf 'Source: mayfly\n\nPackage: mayfly\nArchitecture: any\n' >"$work/shlibdeps/debian/control"
  local depends
  depends="$(cd "$work/shlibdeps" && dpkg-shlibdeps -O "$root/usr/bin/mayfly" 2>/dev/null)"
  cat >"$root/DEBIAN/control" <<CONTROL
Package: mayfly
Version: $version
Architecture: $arch
Section: net
Priority: optional
Maintainer: Mayfly maintainers <maintainers@users.noreply.github.com>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)
Depends: ${depends#shlibs:Depends=}, passwd, init-system-helpers
Recommends: ca-certificates, systemd
Homepage: $(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)
Description: message broker cluster with the semantics of Azure Service Bus
 Queues, topics with filters, sessions, transactions, dead-letter queues,
 scheduled messages and exact expiry, replicated by Raft. Programs written for
 Azure Service Bus run unmodified over AMQP 1.0; there are HTTP and gRPC, too.
CONTROL
  (cd "$root" && find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\n' | LC_ALL=C sort | xargs md5sum) \
    >"$root/DEBIAN/md5sums"
  find "$root" -type d -exec chmod 755 {} +
  chmod 644 "$root"/DEBIAN/{control,conffiles,md5sums}
  dpkg-deb --root-owner-group -Zgzip --build "$root" "$output/mayfly_${version}_$arch.deb" >/dev/null
  echo "$output/mayfly_${version}_$arch.deb"
}

tarball() {
  described
  local name="mayfly-$version-linux-$arch"
  local root="$work/tar/$name"
  install -D -m 755 "$work/mayfly" "$root/bin/mayfly"
  install -D -m 644 deploy/package/mayfly.service "$root/mayfly.service"
  install -D -m 644 deploy/package/mayfly.toml "$root/mayfly.toml"
  for shell in bash zsh fish; do
    install -D -m 644 "$work/described/$shell" "$root/share/completions/mayfly.$shell"
  done
  mkdir -p "$root/share/man/man1"
  cp "$work"/described/man/*.1 "$root/share/man/man1/"
  install -m 644 LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$root/"
  install -D -m 644 -t "$root/share/prometheus" deploy/prometheus/mayfly-alerts.yml
  install -D -m 644 -t "$root/share/grafana" deploy/grafana/*.json
  cat >"$root/README" <<README
Mayfly $version for Linux on $arch.

bin/mayfly is all of it: put it where programs are, as /usr/local/bin. It is linked dynamically to
  $(needed "$work/mayfly" | tr '\n' ' ')
of the GNU C library, $(glibc "$work/mayfly") or newer, and of GCC's libraries (Debian: libc6, libstdc++6, libgcc-s1).
Everything else is in it: RocksDB, TLS, and the rest.

  bin/mayfly up                     a cluster of three nodes on this machine, until Ctrl-C
  bin/mayfly serve --data-dir data  one node

mayfly.service is a unit for systemd: it runs /usr/bin/mayfly as the user mayfly with the
configuration /etc/mayfly/mayfly.toml, for which mayfly.toml is a beginning.
README
  archive "$work/tar" "$name" | gzip -9n >"$output/$name.tar.gz"
  echo "$output/$name.tar.gz"
}

# The image's root: the binary, the libraries that it and they need, and the few files a C library asks for.
image_root() { # ROOT
  local root="$1" wanted library from
  install -D -m 755 "$work/mayfly" "$root/usr/bin/mayfly"
  from="$(interpreter "$work/mayfly")"
  install -D -m 755 "$(readlink -f "$libraries/$from")" "$root$from"
  wanted="$(needed "$work/mayfly")"
  while [ -n "$wanted" ]; do
    library="$(head -1 <<<"$wanted")"
    wanted="$(tail -n +2 <<<"$wanted")"
    [ -e "$root/usr/lib/$library" ] || [ "$library" = "$(basename "$from")" ] && continue
    local found
    found="$(find "$libraries"/lib/*-linux-gnu "$libraries"/usr/lib/*-linux-gnu -maxdepth 1 -name "$library" 2>/dev/null |
      while read -r file; do
        readelf -h "$(readlink -f "$file")" 2>/dev/null | grep -qF "$machine" && echo "$file" && break
      done)"
    [ -n "$found" ] || { echo "mayfly: '$libraries' has no $library for $arch; see --libraries" >&2; exit 1; }
    install -D -m 644 "$(readlink -f "$found")" "$root/usr/lib/$library"
    wanted="$(printf '%s\n%s' "$wanted" "$(needed "$root/usr/lib/$library")" | sed '/^$/d')"
  done
  mkdir -p "$root/etc/ssl/certs" "$root/etc/mayfly"
  # Whom --tls-ca does not name: the authorities that the machine of the build trusts.
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  fi
  echo 'mayfly:x:65532:65532:Mayfly:/var/lib/mayfly:/sbin/nologin' >"$root/etc/passwd"
  echo 'mayfly:x:65532:' >"$root/etc/group"
  echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
  install -D -m 644 deploy/image/mayfly.toml "$root/etc/mayfly/mayfly.toml"
  install -D -m 644 LICENSE-APACHE "$root/usr/share/doc/mayfly/LICENSE-APACHE"
  install -D -m 644 LICENSE-MIT "$root/usr/share/doc/mayfly/LICENSE-MIT"
}

image() {
  command -v buildah >/dev/null || { echo "mayfly: buildah is missing; install it" >&2; exit 1; }
  local context="$work/image" name="mayfly-$version-linux-$arch" image="mayfly:$version" kind
  local store=(--root "$work/containers" --runroot "$work/containers-run" --storage-driver vfs)
  image_root "$context/root-$arch"
  cp deploy/image/Containerfile "$context/"
  # What is above the volume is root's, as all else.
  mkdir -p "$context/root-$arch/var/lib"
  install -d -m 700 "$context/data"
  # A health check is Docker's, and no part of what OCI describes: that archive has it, the other has not.
  buildah "${store[@]}" build --isolation chroot --platform "linux/$arch" --timestamp "$SOURCE_DATE_EPOCH" \
    --format docker --label "org.opencontainers.image.version=$version" --quiet --tag "$image" \
    --file "$context/Containerfile" "$context" >/dev/null
  for kind in oci docker; do
    # Into an empty name: an archive that is there is added to.
    rm -f "$output/$name.$kind.tar"
    buildah "${store[@]}" push --quiet --format "${kind/docker/v2s2}" "$image" \
      "$kind-archive:$output/$name.$kind.tar:$image"
    echo "$output/$name.$kind.tar"
  done
}

for kind in "${kinds[@]}"; do
  case "$kind" in
    deb) deb ;;
    tar) tarball ;;
    image) image ;;
  esac
done
