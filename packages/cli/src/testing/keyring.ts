import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';

export interface TestKeyring {
  /** What programs need to find it. */
  env: { DBUS_SESSION_BUS_ADDRESS: string };
  stop(): Promise<void>;
}

const PROGRAMS = ['secret-tool', 'gnome-keyring-daemon', 'dbus-run-session', 'dbus-send'] as const;

/** Why the tests of the keyring cannot run here. False if they can. */
export const withoutKeyring = (): string | false => {
  const missing = PROGRAMS.find((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0);
  return missing === undefined ? false : `needs ${missing}`;
};

/** Starts GNOME's keyring on its own message bus, unlocked and empty, in a folder that it removes. */
export async function startKeyring(): Promise<TestKeyring> {
  const home = mkdtempSync('/tmp/keyring-');
  const owned = 'org.freedesktop.DBus.NameHasOwner string:org.freedesktop.secrets';
  // `cat` keeps the bus and the keyring until the end of the input
  const script = `
    printf '\\n' | gnome-keyring-daemon --foreground --unlock --components=secrets >/dev/null &
    until dbus-send --print-reply --dest=org.freedesktop.DBus / ${owned} | grep -q true; do sleep 0.05; done
    echo "$DBUS_SESSION_BUS_ADDRESS"
    cat >/dev/null
    kill $!`;
  const child = spawn('dbus-run-session', ['--', 'sh', '-c', script], {
    env: { PATH: process.env['PATH'], HOME: home, XDG_RUNTIME_DIR: home },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const address = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('error', reject);
    void ended.then(() => reject(new Error('the keyring has ended')));
  });
  return {
    env: { DBUS_SESSION_BUS_ADDRESS: address },
    async stop() {
      child.stdin.end();
      await ended;
      rmSync(home, { recursive: true, force: true });
    },
  };
}
