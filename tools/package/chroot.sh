# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# minimal SUITE MIRROR: sets $chroot, a minimal Debian or Ubuntu (debootstrap, as root) with
# /proc. leave_chroot takes it away. Read by try-bundle and try-quickstart.
minimal() {
  chroot=$(mktemp -d /tmp/llmserve-chroot-XXXXXX)
  debootstrap --variant=minbase "$1" "$chroot" "$2" >"$chroot.log" 2>&1 ||
    { tail -n 5 "$chroot.log" >&2; return 1; }
  rm -f "$chroot.log"
  mkdir -p "$chroot/proc"
  mountpoint -q "$chroot/proc" || mount -t proc proc "$chroot/proc"
}

leave_chroot() {
  [ -n "${chroot:-}" ] || return 0
  umount "$chroot/proc" 2>/dev/null || true
  rm -rf --one-file-system "$chroot"
}
