#!/bin/sh
# Builds Helm (Apache-2.0) from its Go module, which takes some minutes the first time, and prints its path. If HELM is set to
# that path, the tests of the charts run.
set -eu
version=v3.18.6
out=${XDG_CACHE_HOME:-$HOME/.cache}/helm/$version
if [ ! -x "$out/helm" ]; then
  command -v go >/dev/null || { echo "Cannot build Helm: install Go (go.dev/doc/install)." >&2; exit 1; }
  mkdir -p "$out"
  GOBIN=$out nice go install "helm.sh/helm/v3/cmd/helm@$version" >&2
fi
echo "$out/helm"
