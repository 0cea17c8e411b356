#!/bin/sh
# Boots a Debian root with real systemd, and again after each reboot. Runs in a mount and pid namespace of its own, as root.
# Arguments: the root (never changed), a work folder, the folder of packages.
set -e
root=$1 work=$2 repository=$3
mount -t tmpfs tmpfs "$work"
mkdir "$work/changes" "$work/overlay" "$work/root"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/changes,workdir=$work/overlay" "$work/root"
# systemd wants the second version of control groups and nothing else.
umount -R /sys/fs/cgroup || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=/sys/fs/cgroup/ringfence-test-$$-$(basename "$work")
mkdir -p "$group"
echo $$ >"$group/cgroup.procs"
while :; do
    code=0
    systemd-nspawn --quiet --boot --private-network --register=no --keep-unit --suppress-sync=yes --console=pipe \
        --timezone=off --resolv-conf=off --machine=ringfence-test --bind-ro="$repository:/srv/repository" \
        --directory="$work/root" </dev/null || code=$?
    # 133 asks for a reboot.
    [ "$code" = 133 ] || exit "$code"
done
