#!/bin/sh
# Builds Kubernetes' API server, controller manager, scheduler and kubectl (Apache-2.0) from their Go module, which takes about
# ten minutes the first time, and prints their folder. If KUBERNETES is set to that folder, the tests of the operator run against
# them.
set -eu
version=v1.34.2
module=k8s.io/kubernetes
staging=v0.${version#v1.}
out=${XDG_CACHE_HOME:-$HOME/.cache}/kubernetes/$version
for command in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
  [ -x "$out/$command" ] && continue
  command -v go >/dev/null || { echo "Cannot build Kubernetes: install Go (go.dev/doc/install)." >&2; exit 1; }
  mkdir -p "$out"
  cd "$out"
  if [ ! -d source ]; then
    dir=$(go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
    # the module cache is read-only, and go.mod names libraries that live in the same repository by their folders
    rm -rf source.part
    cp -R "$dir" source.part
    chmod -R u+w source.part
    (cd source.part && sed -n 's/^[[:space:]]*\(k8s.io\/[a-z-]*\) v0\.0\.0$/\1/p' go.mod |
      while read -r library; do go mod edit -replace="$library=$library@$staging"; done)
    rm -rf source.part/go.work source.part/vendor
    mv source.part source
  fi
  (cd source && CGO_ENABLED=0 nice go build -mod=mod -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "../$command.part" "./cmd/$command") >&2
  mv "$command.part" "$command"
done
rm -rf "$out/source"
echo "$out"
