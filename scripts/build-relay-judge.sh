#!/bin/sh
# Builds a program with the public client and relay of DERP (BSD-3-Clause) from their Go module, which takes about a minute the
# first time, and prints its path. If RELAY_JUDGE is set to that path, this project's relay and client run against them.
set -eu
version=v1.94.1
source=$(cd "$(dirname "$0")/relay-judge" && pwd)
out=${XDG_CACHE_HOME:-$HOME/.cache}/relay-judge/$version-$(cksum <"$source/main.go" | cut -d' ' -f1)
if [ ! -x "$out/relay-judge" ]; then
  command -v go >/dev/null || { echo "Cannot build the judge of relays: install Go (go.dev/doc/install)." >&2; exit 1; }
  rm -rf "$out"
  mkdir -p "$out/source"
  cp "$source/main.go" "$out/source"
  # websockets in a client that is not a browser: the module has them for tests
  (cd "$out/source" && export GOFLAGS=-mod=mod CGO_ENABLED=0 && go mod init relay-judge && go get "tailscale.com@$version" &&
    nice go build -tags ts_debug_websockets -ldflags "-s -w" -o ../relay-judge.part .) >&2
  mv "$out/relay-judge.part" "$out/relay-judge"
  rm -rf "$out/source"
fi
echo "$out/relay-judge"
