#!/usr/bin/env bash
# Build the Debian package: an environment of pinned wheels under /opt/voiceid, units, user and configuration.
set -euo pipefail

usage() {
  cat << 'END'
Usage: deploy/debian/build.sh [--suite SUITE] [--arch ARCH] [--out DIR]

  --suite SUITE   bookworm (Python 3.11) or trixie (Python 3.13); default: this system's
  --arch ARCH     amd64 or arm64, whatever this machine is; default: its own
  --out DIR       where the package goes; default: dist

Needs debhelper, python3-venv (or uv), and a package index for the wheels. Prints the path of the package.
END
}

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
arch=$(dpkg --print-architecture)
out=dist
while (($#)); do
  case $1 in
    --suite | --arch | --out)
      (($# > 1)) || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help) usage && exit ;;
    *) fail "unknown argument: $1 (see --help)" ;;
  esac
done

case $suite in
  bookworm) python=3.11 release=deb12 ;;
  trixie) python=3.13 release=deb13 ;;
  *) fail "suite '$suite' is not supported; use --suite bookworm or --suite trixie" ;;
esac
case $arch in
  amd64) platform=x86_64-manylinux_2_36 ;;
  arm64) platform=aarch64-manylinux_2_36 ;;
  *) fail "architecture '$arch' is not supported: voiceid needs 64 bits, amd64 or arm64" ;;
esac
command -v dh > /dev/null || fail "debhelper is missing: sudo apt install debhelper"
command -v uv > /dev/null || python3 -c 'import ensurepip, venv' 2> /dev/null ||
  fail "python3-venv is missing: sudo apt install python3-venv"

mkdir -p "$out"
out=$(cd "$out" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$checkout/agent/voiceid/__init__.py")
[[ -n $version ]] || fail "agent/voiceid/__init__.py: no __version__"

# 1. The wheels. uv installs for another Python and architecture than this machine's; pip does not.
if ! uv=$(command -v uv); then
  python3 -m venv "$stage/uv"
  "$stage/uv/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
  uv=$stage/uv/bin/uv
fi
"$uv" venv --quiet --python python3 "$stage/tools"
"$uv" build --quiet --wheel --python "$stage/tools/bin/python" --out-dir "$stage/wheel" "$checkout"
tree=$stage/source
packages=$tree/opt/voiceid/lib/python$python/site-packages
install_wheels=("$uv" pip install --quiet --target "$packages" --python "$stage/tools/bin/python"
  --python-version "$python" --python-platform "$platform" --no-deps --only-binary :all: --link-mode copy)
"${install_wheels[@]}" --require-hashes --requirement "$here/requirements.txt"
"${install_wheels[@]}" --no-index "$stage"/wheel/voiceid-*.whl

# 2. Around them a virtual environment of the system's Python, without pip.
mkdir -p "$tree/opt/voiceid/bin"
ln -s "/usr/bin/python$python" "$tree/opt/voiceid/bin/python"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$python" > "$tree/opt/voiceid/pyvenv.cfg"
{ echo '#!/opt/voiceid/bin/python -I' && tail -n +2 "$packages/bin/voiceid"; } > "$tree/opt/voiceid/bin/voiceid"
chmod 0755 "$tree/opt/voiceid/bin/voiceid"
rm -rf "${packages:?}/bin" "${packages:?}/.lock"

# 3. debhelper does the rest.
cp -R "$here/packaging" "$tree/debian"
cp "$checkout/systemd/voiceid.sysusers.conf" "$tree/debian/voiceid.sysusers"
cp "$checkout/systemd/voiceid.tmpfiles.conf" "$tree/debian/voiceid.tmpfiles"
cp -R "$checkout/systemd" "$tree/systemd"
cp -R "$checkout/deploy/examples" "$checkout/deploy/pam" "$tree/"
cp "$checkout/CHANGELOG.md" "$tree/"
"$here/pages.sh" "$checkout" "$tree"
cat > "$tree/debian/changelog" << END
voiceid ($version-1~$release) $suite; urgency=medium

  * See changelog.gz beside this file.

 -- voiceid developers <voiceid@localhost>  $(date -R -d "@$(git -C "$checkout" log -1 --format=%ct 2> /dev/null || date +%s)")
END
(
  cd "$tree"
  VOICEID_PYTHON=$python dpkg-buildpackage --host-arch "$arch" --build=binary --no-sign --no-check-builddeps \
    > "$stage/log" 2>&1
) || { tail -n 30 "$stage/log" >&2 && fail "dpkg-buildpackage failed"; }
cp "$stage"/voiceid_*.deb "$out/"
echo "$out/voiceid_$version-1~${release}_$arch.deb"
