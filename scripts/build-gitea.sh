#!/bin/sh
# Builds Gitea (MIT) from its Go module, which takes some minutes the first time, and prints its folder. If GITEA is set to
# that folder, the tests of Git providers run against a real Gitea.
set -eu
version=v1.24.6
module=code.gitea.io/gitea
out=${XDG_CACHE_HOME:-$HOME/.cache}/gitea/$version
if [ ! -x "$out/gitea" ]; then
  command -v go >/dev/null || { echo "Cannot build Gitea: install Go (go.dev/doc/install)." >&2; exit 1; }
  rm -rf "$out"
  mkdir -p "$out"
  cd "$out"
  dir=$(go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  # the module cache is read-only, and Gitea reads its templates from the source folder
  cp -R "$dir" source
  chmod -R u+w source
  (cd source && nice go build -o ../gitea.part .) >&2
  mv gitea.part gitea
fi
echo "$out"
