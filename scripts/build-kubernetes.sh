#!/bin/sh
# Builds Kubernetes' API server, controller manager, scheduler and kubectl (Apache-2.0) from their Go module, which takes about
# ten minutes the first time, and prints their folder. The folder also gets the custom resources of the Gateway API (Apache-2.0)
# and a program with KEDA's client for external scalers (Apache-2.0). If KUBERNETES is set to that folder, the tests of the
# operator run against them.
set -eu
version=v1.34.2
module=k8s.io/kubernetes
staging=v0.${version#v1.}
gateway=v1.7.0
keda=v2.17.3
client=$(cd "$(dirname "$0")/keda-client" && pwd)
out=${XDG_CACHE_HOME:-$HOME/.cache}/kubernetes/$version
needs_go() {
  command -v go >/dev/null || { echo "Cannot build Kubernetes: install Go (go.dev/doc/install)." >&2; exit 1; }
}
folder_of() {
  go mod download -json "$1" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p'
}
for command in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
  [ -x "$out/$command" ] && continue
  needs_go
  mkdir -p "$out"
  cd "$out"
  if [ ! -d source ]; then
    dir=$(folder_of "$module@$version")
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
if [ ! -d "$out/gateway-api-$gateway" ]; then
  needs_go
  dir=$(folder_of "sigs.k8s.io/gateway-api@$gateway")
  rm -rf "$out/gateway-api.part"
  mkdir "$out/gateway-api.part"
  cp "$dir/config/crd/standard/"*.yaml "$out/gateway-api.part"
  mv "$out/gateway-api.part" "$out/gateway-api-$gateway"
  ln -sfn "gateway-api-$gateway" "$out/gateway-api"
fi
key=$keda-$(cksum <"$client/main.go" | cut -d' ' -f1)
if [ ! -x "$out/keda-client-$key" ]; then
  needs_go
  rm -rf "$out/keda"
  mkdir "$out/keda"
  cp "$client/main.go" "$out/keda"
  (cd "$out/keda" && export GOFLAGS=-mod=mod CGO_ENABLED=0 &&
    go mod init keda-client && go get "github.com/kedacore/keda/v2@$keda" && nice go build -ldflags "-s -w" -o keda-client .) >&2
  mv "$out/keda/keda-client" "$out/keda-client-$key"
  ln -sfn "keda-client-$key" "$out/keda-client"
  rm -rf "$out/keda"
fi
echo "$out"
