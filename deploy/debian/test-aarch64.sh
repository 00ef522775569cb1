#!/usr/bin/env bash
# Install the arm64 package into an arm64 Debian tree under qemu-user, run the agent there, and hold what it says of
# recordings against what the package for this machine says of them. As root; half an hour on an idle machine.
# It shows that the package is whole on a Pi's processor. The times that the benchmark prints are those of the emulator.
set -euo pipefail

enrolled=6
if (($# < 3 + enrolled)); then
  cat >&2 << END
Usage: deploy/debian/test-aarch64.sh ARM64.deb NATIVE.deb SPEECH.wav...
       two packages of one release; recordings of 3 s or more, of which the first $enrolled, of one person, are enrolled and
       the others, of anybody, verified. Needs root, debootstrap, qemu-user-static and binfmt-support.
       BASES=FOLDER: trees that debootstrap made, FOLDER/arm64 and FOLDER/amd64, taken instead of new ones.
END
  exit 2
fi
foreign=$(realpath "$1") native=$(realpath "$2")
shift 2
for file in "$foreign" "$native" "$@"; do
  [[ -r $file ]] || { echo "test-aarch64.sh: $file: no such file" >&2 && exit 2; }
done
[[ $foreign == *deb13* ]] && suite=trixie || suite=bookworm
machine=$(dpkg --print-architecture)
if [[ $machine != arm64 ]]; then
  # The kernel reads how to run programs of other processors from here. Where no init system has done both, as in a
  # container, it has to be mounted, and then told of qemu.
  [[ -e /proc/sys/fs/binfmt_misc/register ]] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || true
  [[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]] || update-binfmts --enable qemu-aarch64 || true
  [[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]] || {
    echo "test-aarch64.sh: this kernel runs no arm64 programs: apt install qemu-user-static binfmt-support" >&2
    exit 1
  }
fi
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/debian/tree.sh
. "$here/tree.sh"

work=$(mktemp -d /var/tmp/voiceid-arm64.XXXXXX)
trap 'leave_tree; rm -rf --one-file-system "$work"' EXIT

install_into_tree() { # ARCH PACKAGE SPEECH...
  local arch=$1 deb=$2 number=0 file
  shift 2
  echo "== $arch: $(basename "$deb")"
  make_tree "$arch" "$suite" "$work/$arch" "${BASES:+$BASES/$arch}"
  enter_tree "$work/$arch"
  cp "$deb" "$tree/root/voiceid.deb"
  mkdir "$tree/root/enrol" "$tree/root/verify" "$tree/root/results"
  for file; do
    number=$((number + 1))
    cp "$file" "$tree/root/$( ((number > enrolled)) && echo verify || echo enrol)/$(printf %03d "$number")-$(basename "$file")"
  done
  # A vault of its own, since the service's key is only made when the service starts.
  printf '[paths]\nvault = "/root/vault"\n' > "$tree/root/config.toml"
  expect "the lists of packages" inside apt-get update --quiet
  expect "it installs" inside apt-get install --yes --quiet --no-install-recommends /root/voiceid.deb
  expect "it is $arch" test "$(inside dpkg --print-architecture)" = "$arch"
}

judge() { # What the agent says of each recording: results/NAME.verify.json, results/NAME.units.json
  local file status
  for file in "$tree"/root/verify/*; do
    file=$(basename "$file") status=0
    inside voiceid --config /root/config.toml verify owner "/root/verify/$file" --json \
      > "$tree/root/results/$file.verify.json" || status=$?
    ((status == 0 || (status >= 10 && status < 20))) || return 1
    inside voiceid --config /root/config.toml units "/root/verify/$file" --force --json \
      > "$tree/root/results/$file.units.json" || return 1
  done
}

install_into_tree arm64 "$foreign" "$@"
echo "      $(inside uname -m), $(inside /opt/voiceid/bin/python --version)"
expect "its configuration" inside voiceid --config /etc/voiceid/config.toml config check
expect "its models" inside voiceid models verify
expect "doctor finds no fault" inside voiceid --config /root/config.toml doctor
cat "$said"
expect "it enrols" inside sh -c 'voiceid --config /root/config.toml enroll owner /root/enrol/*'
expect "it judges" judge
echo "== benchmark (times of an emulator: meaningless)"
inside sh -c 'voiceid benchmark --quick /root/enrol/*'
leave_tree

install_into_tree "$machine" "$native" "$@"
expect "it enrols" inside sh -c 'voiceid --config /root/config.toml enroll owner /root/enrol/*'
expect "it judges" judge

echo "== both say the same"
python3 "$here/compare_results.py" "$work/$machine/root/results" "$work/arm64/root/results"
echo "all as it must be, but for the times"
