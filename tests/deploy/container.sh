#!/bin/sh
# A container of an image that is unpacked below $1, as a runtime would start it: its own network (which whoever started
# this brings up), processes and files, root read-only, one user, no privileges. Environment and arguments are the
# program's; $2 is where it works, $3 a list of mounts ("bind SOURCE TARGET", "tmpfs TARGET"), $4 whether its root is read-only,
# $5 its user.
set -e
image="$1" room="$2" mounts="$3" read_only="$4" user="$5"
shift 5
mount --make-rprivate /
mount -t tmpfs tmpfs "$room"
mkdir "$room/upper" "$room/work" "$room/root"
mount -t overlay overlay -o "lowerdir=$image,upperdir=$room/upper,workdir=$room/work" "$room/root"
root="$room/root"
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
while read -r kind source target; do
  case "$kind" in
    bind)
      if [ -d "$source" ]; then mkdir -p "$root$target"; else mkdir -p "$(dirname "$root$target")"; touch "$root$target"; fi
      mount --bind "$source" "$root$target"
      ;;
    tmpfs)
      mkdir -p "$root$source"
      mount -t tmpfs -o "$target" tmpfs "$root$source"
      ;;
  esac
done <"$mounts"
[ "$read_only" = no ] || mount -o remount,ro "$root"
until ip -4 addr show dev eth0 2>/dev/null | grep -q inet; do sleep 0.1; done
exec setpriv --no-new-privs chroot "--userspec=$user" --groups= "$root" "$@"
