# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# minimal SUITE MIRROR: sets $chroot, a minimal Debian or Ubuntu (debootstrap, as root) with
# /proc. leave_chroot takes it away. Read by try-bundle, try-install and try-quickstart.
minimal() {
  local script=
  # A debootstrap that is older than the suite: every Ubuntu since 7.10 has the same script.
  case $2 in
  *ubuntu*) [ -e "/usr/share/debootstrap/scripts/$1" ] || script=gutsy ;;
  esac
  chroot=$(mktemp -d /tmp/llmserve-chroot-XXXXXX)
  # shellcheck disable=SC2086
  debootstrap --variant=minbase "$1" "$chroot" "$2" $script >"$chroot.log" 2>&1 ||
    { tail -n 5 "$chroot.log" >&2; return 1; }
  rm -f "$chroot.log"
  enter_chroot
}

enter_chroot() {
  mkdir -p "$chroot/proc"
  mountpoint -q "$chroot/proc" || mount -t proc proc "$chroot/proc"
}

leave_chroot() {
  [ -n "${chroot:-}" ] || return 0
  umount "$chroot/proc" 2>/dev/null || true
  rm -rf --one-file-system "$chroot"
}
