/**
 * Returns the start script of an agent on Linux and macOS, in POSIX sh. It downloads the `coder` program from the
 * deployment and executes the agent. It must not exit after an error: cloud machines run it once, and a process that
 * stays keeps its output accessible.
 */
export const posixScript = (os: 'linux' | 'darwin', arch: string): string => `#!/usr/bin/env sh
set -eu

linger() {
	status=$?
	if [ "$status" -ne 0 ]; then
		echo "coder: the agent could not run (status $status). Staying for a day so that this can be read."
		sleep 86400
	fi
}
trap linger EXIT

BINARY_URL="\${ACCESS_URL}bin/coder-${os}-${arch}"
BINARY_DIR="\${BINARY_DIR:-$(mktemp -d -t coder.XXXXXX)}"
BINARY_NAME=coder
mkdir -p "$BINARY_DIR"
cd "$BINARY_DIR"

download() {
	if command -v curl >/dev/null 2>&1; then
		curl -fsSL --compressed "$BINARY_URL" -o "$BINARY_NAME"
	elif command -v wget >/dev/null 2>&1; then
		wget -q "$BINARY_URL" -O "$BINARY_NAME"
	elif command -v busybox >/dev/null 2>&1; then
		busybox wget -q "$BINARY_URL" -O "$BINARY_NAME"
	else
		echo "coder: needs curl, wget or busybox to fetch the agent"
		exit 127
	fi
}

until download; do
	echo "coder: could not fetch $BINARY_URL, trying again in 30 seconds"
	sleep 30
done
chmod +x "$BINARY_NAME"
${
  os === 'linux'
    ? `
if [ -n "\${USE_CAP_NET_ADMIN:-}" ]; then
	if [ "$(id -u)" -eq 0 ]; then
		setcap CAP_NET_ADMIN=+ep "$BINARY_NAME" || echo "coder: could not set CAP_NET_ADMIN"
	else
		sudo -n setcap CAP_NET_ADMIN=+ep "$BINARY_NAME" || echo "coder: could not set CAP_NET_ADMIN"
	fi
fi
`
    : ''
}
export CODER_AGENT_AUTH="\${AUTH_TYPE}"
export CODER_AGENT_URL="\${ACCESS_URL}"

version="$("./$BINARY_NAME" --version | head -n 1)" || version=""
case "$version" in
*Coder*) ;;
*)
	echo "coder: the file from $BINARY_URL does not run here or is not coder: $version"
	exit 2
	;;
esac

exec "./$BINARY_NAME" agent
`;
