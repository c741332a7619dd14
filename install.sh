#!/bin/sh
# Installs coder from a release: a directory, such as the one that `npm run build` creates, or a URL with the same files.
set -eu

usage() {
	cat <<'USAGE'
Usage: install.sh --from DIR|URL [--prefix DIR] [--systemd] [--dry-run]

  --from DIR|URL  the release: coder-<os>-<arch>, SHA256SUMS and, for --systemd, the *.service files
                  (default in a script downloaded from a server: that server)
  --prefix DIR    install the program as DIR/bin/coder (default: /usr/local; in a script downloaded from a server
                  ~/.local if you cannot write to /usr/local)
  --systemd       also install the units coder.service and coder-provisioner.service, their users and example settings
  --dry-run       print what would be installed, and change nothing

To build packages, set DESTDIR in the environment. It is prepended to every path, and the script then creates no users
and does not reload systemd.
USAGE
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

from=''
prefix=''
# a server that serves this script sets "from" to its own address and "served" to yes
served=no
systemd=no
dry=no
while [ $# -gt 0 ]; do
	case "$1" in
	--from | --prefix)
		[ $# -ge 2 ] || die "$1 needs a value"
		if [ "$1" = --from ]; then from=$2; else prefix=$2; fi
		shift 2
		;;
	--from=*)
		from=${1#*=}
		shift
		;;
	--prefix=*)
		prefix=${1#*=}
		shift
		;;
	--systemd)
		systemd=yes
		shift
		;;
	--dry-run)
		dry=yes
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*) die "unknown argument: $1 (see --help)" ;;
	esac
done
[ -n "$from" ] || {
	usage >&2
	exit 1
}
root=${DESTDIR:-}
if [ -z "$prefix" ]; then
	prefix=/usr/local
	# a script downloaded from a server is often run without root: install where the user can write
	where=$root$prefix/bin
	[ -d "$where" ] || where=$root$prefix
	if [ "$served" = yes ] && ! { [ -d "$where" ] && [ -w "$where" ]; }; then prefix=${HOME:-}/.local; fi
fi
case "$prefix" in
/*) ;;
*) die "--prefix must be an absolute path: $prefix" ;;
esac
prefix=${prefix%/}
from=${from%/}

case "$(uname -s)" in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) die "no release for $(uname -s): this script installs on Linux and macOS" ;;
esac
case "$(uname -m)" in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
armv7l) arch=armv7 ;;
*) die "no release for $(uname -m): there are releases for amd64, arm64 and armv7" ;;
esac
name=coder-$os-$arch
[ "$systemd" = no ] || [ "$os" = linux ] || die "--systemd works only on Linux"

case "$from" in
http://* | https://*)
	remote=yes
	if command -v curl >/dev/null 2>&1; then
		get() { curl -fsSL --retry 3 -o "$2" "$1"; }
	elif command -v wget >/dev/null 2>&1; then
		get() { wget -q -O "$2" "$1"; }
	else
		die "needs curl or wget to fetch $from"
	fi
	;;
*)
	remote=no
	[ -d "$from" ] || die "directory not found: $from"
	;;
esac

sum() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d' ' -f1
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 "$1" | cut -d' ' -f1
	elif command -v openssl >/dev/null 2>&1; then
		openssl dgst -sha256 -r "$1" | cut -d' ' -f1
	else
		die "needs sha256sum, shasum or openssl to verify checksums"
	fi
}

bin=$root$prefix/bin
units=$root/etc/systemd/system
settings=$root/etc/coder.d

if [ "$dry" = yes ]; then
	echo "would install $from/$name as $bin/coder"
	if [ "$systemd" = yes ]; then
		echo "would install $units/coder.service and $units/coder-provisioner.service"
		echo "would create $settings/coder.env and $settings/coder-provisioner.env unless they exist"
	fi
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# fetch FILE: copies it to $work/FILE, or exits
fetch() {
	if [ "$remote" = yes ]; then
		get "$from/$1" "$work/$1" || die "could not fetch $from/$1"
	else
		[ -f "$from/$1" ] || die "file not found: $from/$1"
		cp "$from/$1" "$work/$1"
	fi
	[ -s "$work/$1" ] || die "$from/$1 is empty"
}

# verified FILE: fetches it and compares it with SHA256SUMS, if there is one
verified() {
	fetch "$1"
	[ -f "$work/SHA256SUMS" ] || return 0
	wanted=$(awk -v file="$1" '$2 == file || $2 == "*" file { print $1 }' "$work/SHA256SUMS")
	[ -n "$wanted" ] || die "$from/SHA256SUMS has no checksum for $1: nothing was installed"
	[ "$(sum "$work/$1")" = "$wanted" ] || die "the checksum of $from/$1 does not match SHA256SUMS: nothing was installed"
}

if [ "$remote" = yes ] || [ -f "$from/SHA256SUMS" ]; then
	fetch SHA256SUMS
else
	echo "install.sh: warning: $from has no SHA256SUMS, so the files are not verified" >&2
fi
verified "$name"
if [ "$systemd" = yes ]; then
	verified coder.service
	verified coder-provisioner.service
fi

mkdir -p "$bin" 2>/dev/null || die "could not create $bin: run this with sudo, or choose another --prefix"
[ -w "$bin" ] || die "cannot write to $bin: run this with sudo, or choose another --prefix"
# copied next to it and then renamed, because a running program cannot be overwritten
trap 'rm -rf "$work" "$bin/.coder.new"' EXIT
cp "$work/$name" "$bin/.coder.new"
chmod 0755 "$bin/.coder.new"
"$bin/.coder.new" version >/dev/null 2>&1 || die "$from/$name does not run on this machine: nothing was installed"
mv -f "$bin/.coder.new" "$bin/coder"
echo "installed $bin/coder ($("$bin/coder" version | head -n 1))"
case ":${PATH:-}:" in
*":$prefix/bin:"*) ;;
*) echo "add $prefix/bin to your PATH to run the program as: coder" ;;
esac
[ "$systemd" = yes ] || exit 0

mkdir -p "$units" "$settings" || die "could not create $units and $settings: run this with sudo"
chmod 0755 "$settings"
for unit in coder coder-provisioner; do
	sed "s|^ExecStart=/usr/local/bin/coder|ExecStart=$prefix/bin/coder|" "$work/$unit.service" >"$units/$unit.service"
	chmod 0644 "$units/$unit.service"
	echo "installed $units/$unit.service"
done

# new_settings NAME: writes standard input to NAME.env unless it exists. Only root can read it, since it may hold secrets.
new_settings() {
	if [ -e "$settings/$1.env" ]; then
		echo "kept $settings/$1.env"
		cat >/dev/null
		return 0
	fi
	(umask 077 && cat >"$settings/$1.env")
	echo "created $settings/$1.env: edit it, then run: systemctl enable --now $1"
}
new_settings coder <<'ENV'
# Settings of coder.service. Every option of `coder server --help` has a variable.
# The URL that people and workspaces use to reach the server:
#CODER_ACCESS_URL=https://coder.example.com
CODER_HTTP_ADDRESS=127.0.0.1:3000
# An external PostgreSQL. Without it the server uses the bundled one:
#CODER_PG_CONNECTION_URL=postgres://coder:password@localhost/coder
# Set this to 0 to run builds only in coder-provisioner.service, as a user who cannot read this server's data:
#CODER_PROVISIONER_DAEMONS=0
ENV
new_settings coder-provisioner <<'ENV'
# Settings of coder-provisioner.service. See `coder provisioner start --help`.
#CODER_URL=https://coder.example.com
# Created with: coder provisioner keys create <name> --tag key=value
#CODER_PROVISIONER_DAEMON_KEY=
#CODER_PROVISIONER_DAEMON_CONCURRENCY=2
# Terraform also receives variables that do not begin with CODER_ or PG: cloud credentials, proxies, TF_*.
ENV

[ -z "$root" ] || exit 0
for user in coder coder-provisioner; do
	id "$user" >/dev/null 2>&1 && continue
	useradd --system --user-group --home-dir "/var/lib/$user" --no-create-home --shell /usr/sbin/nologin "$user"
	echo "created the user $user"
done
if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
