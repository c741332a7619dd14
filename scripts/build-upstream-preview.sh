#!/bin/sh
# Builds a program around upstream's evaluator of dynamic parameters (AGPL, from its Go module; only tests run it) and
# prints its folder, which holds `preview-judge` and upstream's `testdata`. If UPSTREAM_PREVIEW is set to that folder, the
# tests of packages/hcl compare this project's evaluator with it.
set -eu
version=v1.0.3-0.20250714153828-a737d4750448
module=github.com/coder/preview
source=$(cd "$(dirname "$0")/upstream-preview" && pwd)
key=$version-$(cksum <"$source/main.go" | cut -d' ' -f1)
out=${XDG_CACHE_HOME:-$HOME/.cache}/upstream-preview/$key
if [ ! -x "$out/preview-judge" ]; then
  command -v go >/dev/null || { echo "Cannot build upstream's evaluator: install Go (go.dev/doc/install)." >&2; exit 1; }
  rm -rf "$out"
  mkdir -p "$out"
  cd "$out"
  export GOFLAGS=-mod=mod
  dir=$(go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  # the module cache is read-only, and `replace` lines apply only in a main module
  cp -R "$dir" source
  chmod -R u+w source
  mkdir source/cmd/judge
  cp "$source/main.go" source/cmd/judge/
  (cd source && go build -o ../preview-judge.part ./cmd/judge) >&2
  mv source/testdata testdata
  mv preview-judge.part preview-judge
  rm -rf source
fi
echo "$out"
