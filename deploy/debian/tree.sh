# shellcheck shell=bash
# Sourced: what the tests of the package share. A tree is a Debian system in a folder, for chroot(8).

tree=''
said=''

make_tree() { # ARCH SUITE FOLDER [BASE]
  if [[ -n ${4:-} ]]; then
    cp --archive "$4" "$3"
  elif ! debootstrap --arch "$1" --variant=minbase --include=ca-certificates "$2" "$3" > "$3.log" 2>&1; then
    tail -n 5 "$3.log" >&2
    return 1
  fi
  # No service may start in a tree: it would be one of the machine around it.
  printf '#!/bin/sh\nexit 101\n' > "$3/usr/sbin/policy-rc.d"
  chmod +x "$3/usr/sbin/policy-rc.d"
}

enter_tree() { # FOLDER
  tree=$1
  said=$tree.log
  mount -t proc proc "$tree/proc"
  mount --bind /dev "$tree/dev"
}

leave_tree() {
  [[ -n $tree ]] || return 0
  umount --lazy "$tree/dev" "$tree/proc" # lazily, since a test that was told to end may leave programs in it
  tree=''
}

inside() {
  DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$tree" "$@"
}

expect() { # WHAT COMMAND...; what the command says lies in $said
  local what=$1
  shift
  if "$@" > "$said" 2>&1; then
    echo "ok    $what"
  else
    echo "FAIL  $what: $*"
    tail -n 15 "$said"
    return 1
  fi
}
