#!/bin/sh
# Builds upstream's Terraform provider (MPL-2.0) from its Go module and prints its folder. If UPSTREAM_PROVIDER is set to
# that folder, the tests of packages/terraform-provider compare this project's provider with it.
set -eu
version=v2.20.0
module=github.com/coder/terraform-provider-coder/v2
out=${XDG_CACHE_HOME:-$HOME/.cache}/upstream-provider/$version
if [ ! -x "$out/terraform-provider-coder" ]; then
  command -v go >/dev/null || { echo "Cannot build upstream's provider: install Go (go.dev/doc/install)." >&2; exit 1; }
  rm -rf "$out"
  mkdir -p "$out"
  cd "$out"
  dir=$(go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  # the module cache is read-only, and `replace` lines apply only in a main module
  cp -R "$dir" source
  chmod -R u+w source
  (cd source && go build -o ../terraform-provider-coder.part .) >&2
  mv terraform-provider-coder.part terraform-provider-coder
fi
echo "$out"
