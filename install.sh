#!/bin/sh
# Installs coder from a release: a directory, such as the one that `npm run build` makes, or a URL with the same files.
set -eu

usage() {
	cat <<'USAGE'
Usage: install.sh --from DIR|URL [--prefix DIR] [--systemd] [--dry-run]

  --from DIR|URL  where the release is: coder-<os>-<arch>, SHA256SUMS and, for --systemd, the *.service files;
                  a script that a server handed out installs from that server
  --prefix DIR    the program becomes DIR/bin/coder (default: /usr/local; ~/.local where a server's script may not
                  write there)
  --systemd       also install the units coder.service and coder-provisioner.service, their users and example settings
  --dry-run       say what would be done, and do nothing

DESTDIR in the environment is put before every path, for packages; users are not made then, systemd is not told.
USAGE
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

from=''
prefix=''
# a server that hands this script out puts its own address and "yes" here
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
	# piped from a server into a shell: whoever is not root gets it where they may write
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
*) die "there is no release for $(uname -s)" ;;
esac
case "$(uname -m)" in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
armv7l) arch=armv7 ;;
*) die "there is no release for $(uname -m)" ;;
esac
name=coder-$os-$arch
[ "$systemd" = no ] || [ "$os" = linux ] || die "--systemd is for Linux"

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
	[ -d "$from" ] || die "there is no directory $from"
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
		die "needs sha256sum, shasum or openssl to check what it installs"
	fi
}

bin=$root$prefix/bin
units=$root/etc/systemd/system
settings=$root/etc/coder.d

if [ "$dry" = yes ]; then
	echo "would install $from/$name as $bin/coder"
	if [ "$systemd" = yes ]; then
		echo "would install $units/coder.service and $units/coder-provisioner.service"
		echo "would make $settings/coder.env and $settings/coder-provisioner.env where there are none"
	fi
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# fetch FILE: it is $work/FILE then, or the script ends
fetch() {
	if [ "$remote" = yes ]; then
		get "$from/$1" "$work/$1" || die "could not fetch $from/$1"
	else
		[ -f "$from/$1" ] || die "there is no $from/$1"
		cp "$from/$1" "$work/$1"
	fi
	[ -s "$work/$1" ] || die "$from/$1 is empty"
}

# verified FILE: fetched, and as the list of sums has it
verified() {
	fetch "$1"
	[ -f "$work/SHA256SUMS" ] || return 0
	wanted=$(awk -v file="$1" '$2 == file || $2 == "*" file { print $1 }' "$work/SHA256SUMS")
	[ -n "$wanted" ] || die "$from/SHA256SUMS has no sum for $1"
	[ "$(sum "$work/$1")" = "$wanted" ] || die "$from/$1 does not have the sum that SHA256SUMS names: nothing was installed"
}

if [ "$remote" = yes ] || [ -f "$from/SHA256SUMS" ]; then
	fetch SHA256SUMS
else
	echo "install.sh: $from has no SHA256SUMS: what is installed is not checked" >&2
fi
verified "$name"
if [ "$systemd" = yes ]; then
	verified coder.service
	verified coder-provisioner.service
fi

mkdir -p "$bin" 2>/dev/null || die "could not make $bin: run it with sudo, or choose another --prefix"
[ -w "$bin" ] || die "may not write to $bin: run it with sudo, or choose another --prefix"
# beside it, then in its place: a program that runs can not be written to
trap 'rm -rf "$work" "$bin/.coder.new"' EXIT
cp "$work/$name" "$bin/.coder.new"
chmod 0755 "$bin/.coder.new"
"$bin/.coder.new" version >/dev/null 2>&1 || die "$from/$name does not run on this machine: nothing was installed"
mv -f "$bin/.coder.new" "$bin/coder"
echo "installed $bin/coder ($("$bin/coder" version | head -n 1))"
case ":${PATH:-}:" in
*":$prefix/bin:"*) ;;
*) echo "add $prefix/bin to your PATH to run it as: coder" ;;
esac
[ "$systemd" = yes ] || exit 0

mkdir -p "$units" "$settings" || die "could not make $units and $settings: run it with sudo"
chmod 0755 "$settings"
for unit in coder coder-provisioner; do
	sed "s|^ExecStart=/usr/local/bin/coder|ExecStart=$prefix/bin/coder|" "$work/$unit.service" >"$units/$unit.service"
	chmod 0644 "$units/$unit.service"
	echo "installed $units/$unit.service"
done

# settings NAME: from standard input, where there are none; they may hold secrets
new_settings() {
	if [ -e "$settings/$1.env" ]; then
		echo "kept $settings/$1.env"
		cat >/dev/null
		return 0
	fi
	(umask 077 && cat >"$settings/$1.env")
	echo "made $settings/$1.env: edit it, then: systemctl enable --now $1"
}
new_settings coder <<'ENV'
# Settings of coder.service; every option of `coder server --help` has a variable.
# The address people and workspaces reach the server at:
#CODER_ACCESS_URL=https://coder.example.com
CODER_HTTP_ADDRESS=127.0.0.1:3000
# An external PostgreSQL; without it the bundled one is used:
#CODER_PG_CONNECTION_URL=postgres://coder:password@localhost/coder
# 0 where builds run in coder-provisioner.service, as a user who can not read this server's data:
#CODER_PROVISIONER_DAEMONS=0
ENV
new_settings coder-provisioner <<'ENV'
# Settings of coder-provisioner.service; see `coder provisioner start --help`.
#CODER_URL=https://coder.example.com
# Made by: coder provisioner keys create <name> --tag key=value
#CODER_PROVISIONER_DAEMON_KEY=
#CODER_PROVISIONER_DAEMON_CONCURRENCY=2
# Variables of other names reach Terraform: cloud credentials, proxies, TF_*.
ENV

[ -z "$root" ] || exit 0
for user in coder coder-provisioner; do
	id "$user" >/dev/null 2>&1 && continue
	useradd --system --user-group --home-dir "/var/lib/$user" --no-create-home --shell /usr/sbin/nologin "$user"
	echo "made the user $user"
done
if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
