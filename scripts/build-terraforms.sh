#!/bin/sh
# Builds the oldest and the newest Terraform that daemons support, and OpenTofu, from their Go modules. Prints the folder
# that has them as terraform-<version> and tofu-<version>. If TERRAFORMS is set to that folder, a test runs the main
# template with each.
set -eu
out=${XDG_CACHE_HOME:-$HOME/.cache}/terraforms
mkdir -p "$out"

# build <name> <module> <version> <package> <package of the version>
build() {
  [ ! -x "$out/$1" ] || return 0
  command -v go >/dev/null || { echo "Cannot build $1: install Go (go.dev/doc/install)." >&2; exit 1; }
  # the module cache is read-only, and `replace` lines apply only in a main module
  source=$(mktemp -d)
  dir=$(go mod download -json "$2@$3" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  cp -R "$dir/." "$source"
  chmod -R u+w "$source"
  (
    cd "$source"
    # Without the remote states and keys of clouds, which templates cannot use. Their libraries are most of the code.
    # Each remote state of Terraform 1.15 is a separate module, which the module proxy does not have.
    clouds='(artifactory|azure|consul|cos|etcdv2|etcdv3|gcs|kubernetes|manta|oci|oss|pg|s3|swift)'
    sed -i -E -e "/remote-state\/$clouds\"/d" -e '/"azure": func.*\{$/,/^\t\t\},/d' \
      -e '/backend(Artifactory|Azure|Consul|Cos|Etcdv2|Etcdv3|GCS|Kubernetes|Manta|OCI|OSS|Pg|S3|Swift)\./d' \
      internal/backend/init/init.go
    sed -i -E "/remote-state\/$clouds /d" go.mod
    keys='(aws_kms|azure_vault|gcp_kms|openbao)'
    [ ! -f internal/encryption/default_registry.go ] || sed -i -E -e "/keyprovider\/$keys\"/d" \
      -e "/$keys\.New/,/^\t\}/d" internal/encryption/default_registry.go
    # of the time before Go 1.18, which does not link with today's Go
    [ "$1" != terraform-1.1.9 ] || go get golang.org/x/sys@v0.30.0 >&2
    go build -mod=mod -ldflags "-s -w -X $5.dev=no" -o "$out/$1.part" "$4" >&2
  )
  mv "$out/$1.part" "$out/$1"
  rm -rf "$source"
}

terraform=github.com/hashicorp/terraform
tofu=github.com/opentofu/opentofu
build terraform-1.1.9 $terraform v1.1.9 . $terraform/version
build terraform-1.15.0 $terraform v1.15.0 . $terraform/version
build tofu-1.12.6 $tofu v1.12.6 ./cmd/tofu $tofu/version
echo "$out"
