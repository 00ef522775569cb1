#!/usr/bin/env bash
# Install, update or remove voiceid on Raspberry Pi OS and Debian. Everything is done by the Debian package; doing it
# again changes nothing.
set -euo pipefail

usage() {
  cat << 'END'
Usage: deploy/install.sh [--deb FILE] [--client USER]... [--dry-run]
       deploy/install.sh --uninstall [--purge] [--dry-run]

  --deb FILE      this package; without it one is built here, which installs debhelper and python3-venv
  --client USER   let USER talk to the daemon (group voiceid-clients); may be repeated
  --uninstall     remove voiceid; enrolments, device key and configuration stay
  --purge         with --uninstall: delete those too, for ever
  --dry-run       only print what would be done
END
}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

deb='' dry_run='' uninstall='' purge='' clients=()
while (($#)); do
  case $1 in
    --deb | --client)
      (($# > 1)) || fail "$1 needs a value"
      if [[ $1 == --deb ]]; then deb=$2; else clients+=("$2"); fi
      shift
      ;;
    --dry-run) dry_run=yes ;;
    --uninstall) uninstall=yes ;;
    --purge) purge=yes ;;
    -h | --help) usage && exit ;;
    *) fail "unknown argument: $1 (see --help)" ;;
  esac
  shift
done
[[ -z $purge || -n $uninstall ]] || fail "--purge needs --uninstall"
[[ -z $uninstall || -z $deb$(printf %s "${clients[@]:-}") ]] || fail "--uninstall takes neither --deb nor --client"

run() {
  echo "+ $*"
  [[ -n $dry_run ]] || "$@"
}

as_root() {
  if ((EUID == 0)); then run "$@"; else run sudo "$@"; fi
}

check_system() {
  local codename
  if [[ ! -r /etc/os-release ]] || ! command -v dpkg > /dev/null; then
    fail "this is neither Debian nor Raspberry Pi OS"
  fi
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  case $codename in
    bookworm | trixie) ;;
    *) fail "release '$codename' is not supported: Debian or Raspberry Pi OS bookworm or trixie is needed" ;;
  esac
  case $(dpkg --print-architecture) in
    amd64 | arm64) ;;
    *) fail "$(dpkg --print-architecture) is not supported: install the 64-bit Raspberry Pi OS" ;;
  esac
  for user in "${clients[@]}"; do
    id -u "$user" > /dev/null 2>&1 || fail "--client $user: there is no such user"
  done
}

build_package() {
  local here
  here=$(cd "$(dirname "$0")" && pwd)
  as_root apt-get install --yes --no-install-recommends debhelper python3-venv git
  deb=$here/../dist/voiceid.deb
  echo "+ $here/debian/build.sh --out $here/../dist"
  [[ -n $dry_run ]] || deb=$("$here/debian/build.sh" --out "$here/../dist")
}

# The firmware of a Pi switches memory accounting off, and MemoryMax= with it.
warn_of_memory_accounting() {
  if [[ -r /proc/cgroups ]] && grep -q '^memory.*0$' /proc/cgroups; then
    echo "Note: this kernel accounts for no memory, so the memory limit of voiceid.service has no effect." >&2
    echo "      To switch it on: add 'cgroup_enable=memory' to /boot/firmware/cmdline.txt and restart." >&2
  fi
}

if [[ -n $uninstall ]]; then
  if ! dpkg-query --show voiceid > /dev/null 2>&1; then
    echo "voiceid is not installed"
  elif [[ -n $purge ]]; then
    as_root apt-get purge --yes voiceid
  else
    as_root apt-get remove --yes voiceid
    echo "Enrolments stay in /var/lib/voiceid, the device key in /etc/credstore; --uninstall --purge deletes them."
  fi
  exit
fi

check_system
[[ -z $deb || -r $deb ]] || fail "$deb: no such package"
[[ -n $deb ]] || build_package
# An older package than the installed one is a rollback: the vault stays as it is.
as_root apt-get install --yes --allow-downgrades "$(realpath --canonicalize-missing "$deb")"
for user in "${clients[@]}"; do
  as_root usermod --append --groups voiceid-clients "$user"
  echo "$user has to log in again before they can talk to the daemon"
done
warn_of_memory_accounting
if [[ -z $dry_run ]]; then
  echo "voiceid is installed; next: 'sudo voiceid doctor', then 'voiceid enroll NAME --microphone'"
fi
