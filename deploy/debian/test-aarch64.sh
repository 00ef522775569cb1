#!/usr/bin/env bash
# Install the arm64 package into an arm64 Debian tree under qemu-user and run the agent there. As root, ~15 minutes.
# It shows that the package is whole on a Pi's processor. The times that the benchmark prints are those of the emulator.
set -euo pipefail

if (($# < 2)) || [[ ! -r $1 ]]; then
  echo "Usage: deploy/debian/test-aarch64.sh PACKAGE_arm64.deb SPEECH.wav..." >&2
  echo "       recordings of one person, 3 s or more; needs root, debootstrap, qemu-user-static and binfmt-support" >&2
  exit 2
fi
deb=$(realpath "$1")
shift
[[ $deb == *deb13* ]] && suite=trixie || suite=bookworm
[[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 || $(uname -m) == aarch64 ]] || {
  echo "test-aarch64.sh: this kernel runs no arm64 programs: apt install qemu-user-static binfmt-support" >&2
  exit 1
}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/debian/tree.sh
. "$here/tree.sh"

work=$(mktemp -d /var/tmp/voiceid-arm64.XXXXXX)
make_tree arm64 "$suite" "$work/tree"
enter_tree "$work/tree"
trap 'leave_tree; rm -rf --one-file-system "$work"' EXIT
cp "$deb" "$tree/root/voiceid.deb"
mkdir "$tree/root/speech"
cp "$@" "$tree/root/speech/"

expect "the lists of packages" inside apt-get update --quiet
expect "it installs" inside apt-get install --yes --quiet --no-install-recommends /root/voiceid.deb
expect "it is arm64" test "$(inside uname -m)" = aarch64
expect "its configuration" inside voiceid --config /etc/voiceid/config.toml config check
expect "its models" inside voiceid models verify
echo "== benchmark (times of an emulator: meaningless)"
inside sh -c 'voiceid benchmark --quick /root/speech/*'
echo "all as it must be, but for the times"
