#!/bin/sh
# Process 1 of a machine that is as fresh as the Debian below $1: its own systemd, processes, network and files.
# To be run by `unshare --mount --pid --net --uts --ipc --cgroup --fork`. What is written is in memory at $2, and
# gone with it.
set -e
fresh="$1" room="$2"
mount --make-rprivate /
mount -t tmpfs tmpfs "$room"
mkdir "$room/upper" "$room/work" "$room/root"
mount -t overlay overlay -o "lowerdir=$fresh,upperdir=$room/upper,workdir=$room/work" "$room/root"
cd "$room/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$place"; done
chmod 1777 tmp
for device in null zero random urandom tty full; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
# A hierarchy that systemd may write to, whatever the machine around it has.
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
ip link set lo up
: > etc/machine-id
# It looks for disks of LVM, of which this machine has none.
ln -sf /dev/null etc/systemd/system/e2scrub_reap.service
# As the installer leaves them.
echo fresh > etc/hostname
echo "127.0.0.1 localhost fresh" > etc/hosts
export container=mayfly-test
# Not by chroot alone: what the service sees of the machine is mounted anew from its root.
pivot_root . mnt
exec chroot . /bin/sh -c 'umount -l /mnt; exec /lib/systemd/systemd --unit=multi-user.target'
