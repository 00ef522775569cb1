#!/usr/bin/env bash
# Install the package into a clean Debian tree and live through it: installed, upgraded, rolled back, removed, purged.
# As root. Ends with 1 at the first thing that is not as it must be.
set -euo pipefail

if [[ ! -r ${1:-} ]]; then
  echo "Usage: deploy/debian/test.sh PACKAGE.deb [BASE]" >&2
  echo "       needs root, debootstrap and a Debian mirror; BASE is a tree that debootstrap made, taken instead of a new one" >&2
  exit 2
fi
deb=$(realpath "$1")
[[ $deb == *deb13* ]] && suite=trixie || suite=bookworm
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/debian/tree.sh
. "$here/tree.sh"

work=$(mktemp -d /var/tmp/voiceid-package.XXXXXX)
make_tree "$(dpkg --print-architecture)" "$suite" "$work/tree" "${2:-}"
enter_tree "$work/tree"
trap 'leave_tree; rm -rf --one-file-system "$work"' EXIT

is() { # FILE 'MODE OWNER GROUP'
  [[ $(inside stat --format '%a %U %G' "$1") == "$2" ]]
}
runs_as_the_daemon() {
  inside setpriv --reuid voiceid --regid voiceid --clear-groups env HOME=/ "$@"
}
key_and_vault_are_there() {
  inside cmp /root/vault.before /var/lib/voiceid/vault/format && inside test -s /etc/credstore/voiceid-device-key
}
have_gone() {
  local path
  for path; do [[ ! -e $tree$path && ! -L $tree$path ]] || return 1; done
}

cp "$deb" "$tree/root/voiceid.deb"
dpkg-deb --raw-extract "$deb" "$work/newer"
sed -i 's/^Version: .*/&.1/' "$work/newer/DEBIAN/control"
dpkg-deb --root-owner-group -Zzstd -z1 --build "$work/newer" "$tree/root/newer.deb" > /dev/null
install_it=(inside apt-get install --yes --quiet --no-install-recommends --allow-downgrades)

echo "== install"
expect "the lists of packages" inside apt-get update --quiet
expect "it installs" "${install_it[@]}" /root/voiceid.deb
expect "the daemon's own user, without a shell" inside getent passwd voiceid
expect "it may hear: group audio" grep -q '^audio:.*voiceid' "$tree/etc/group"
expect "clients' group" inside getent group voiceid-clients
expect "folder of the socket" is /run/voiceid '755 voiceid voiceid'
expect "service and socket start at boot" inside systemctl is-enabled voiceid.service voiceid.socket
expect "no device key yet: images must not share one" have_gone /etc/credstore/voiceid-device-key
expect "the command" inside voiceid --version
expect "its configuration" inside voiceid --config /etc/voiceid/config.toml config check
expect "its models" inside voiceid models verify
expect "bytecode, which the daemon could not write" test -d "$tree"/opt/voiceid/lib/python3.*/site-packages/voiceid/__pycache__
complaints=$(inside systemd-analyze verify voiceid.service voiceid.socket voiceid-device-key.service 2>&1 || true)
expect "systemd-analyze verify says nothing: $complaints" test -z "$complaints"

echo "== a vault and a device key"
expect "the vault's folder" inside install -d -m 0700 -o voiceid -g voiceid /var/lib/voiceid /var/lib/voiceid/vault
expect "what the key's service does" inside sh -euc "umask 077; mkdir -p /etc/credstore; cd /etc/credstore; $(
  sed -n "/^ExecStart=/,/'\$/p" "$tree/lib/systemd/system/voiceid-device-key.service" | tr -d '\\\n' | sed "s/.*-euc '\(.*\)'/\1/"
)"
expect "the key is root's alone" is /etc/credstore/voiceid-device-key '600 root root'
expect "it has 32 bytes" inside test "$(inside stat --format %s /etc/credstore/voiceid-device-key)" = 32
inside install -d -m 0700 -o voiceid /run/voiceid-key
inside install -m 0400 -o voiceid /etc/credstore/voiceid-device-key /run/voiceid-key/voiceid-device-key
expect "a vault under that key" runs_as_the_daemon env CREDENTIALS_DIRECTORY=/run/voiceid-key /opt/voiceid/bin/python -c '
from voiceid.enrolment.opening import open_vault
from voiceid.settings import load_settings
open_vault(load_settings().paths, create=True)'
inside cp /var/lib/voiceid/vault/format /root/vault.before

echo "== upgrade, rollback, removal, purge"
echo '# changed by an admin' >> "$tree/etc/voiceid/config.toml"
for package in newer voiceid; do
  expect "$package.deb over it" "${install_it[@]}" "/root/$package.deb"
  expect "key and vault are as they were" key_and_vault_are_there
  expect "the configuration is the admin's" grep -q 'changed by an admin' "$tree/etc/voiceid/config.toml"
  expect "the vault opens" runs_as_the_daemon env CREDENTIALS_DIRECTORY=/run/voiceid-key voiceid users list
done
expect "again changes nothing" "${install_it[@]}" /root/voiceid.deb
expect "it is removed" inside apt-get remove --yes --quiet voiceid
expect "programs have gone" have_gone /opt/voiceid /usr/bin/voiceid /lib/systemd/system/voiceid.service
expect "key and vault are as they were" key_and_vault_are_there
expect "it is installed again" "${install_it[@]}" /root/voiceid.deb
expect "key and vault are as they were" key_and_vault_are_there
expect "it is purged" inside apt-get purge --yes --quiet voiceid
expect "nothing is left" have_gone /opt/voiceid /etc/voiceid /var/lib/voiceid /etc/credstore/voiceid-device-key
echo "all as it must be"
