#!/usr/bin/env bash
# pages.sh CHECKOUT FOLDER: the pages for admins, side by side in FOLDER as they lie in /usr/share/doc/voiceid.
# Links to each other are mended; those to what the package does not bring become plain text.
set -euo pipefail

checkout=$1 folder=$2
shipped='configuration|command-line|life-of-a-device|microphone|service'

page() { # NAME: from standard input
  sed -E \
    -e 's,\]\((\.\./)?systemd/README\.md,](systemd.md,g' \
    -e 's,\]\((\.\./)?deploy/README\.md,](README.md,g' \
    -e 's,\]\(\.\./README\.md#security-and-limits,](limits.md,g' \
    -e "s,\\]\\((\\.\\./)?docs/($shipped)\\.md,](\\2.md,g" \
    -e 's,\[([^]]*)\]\(([a-z.-]*/|words\.md|service-measures\.md)[^)]*\),\1,g' > "$folder/$1"
}

page README.md < "$checkout/deploy/README.md"
page systemd.md < "$checkout/systemd/README.md"
sed -n '/^## Security and limits/,/^## Development/{/^## Development/d;s/^##/#/;p}' "$checkout/README.md" | page limits.md
for name in ${shipped//|/ }; do page "$name.md" < "$checkout/docs/$name.md"; done
