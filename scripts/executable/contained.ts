// The files that the executable contains. Those of the agent and the commands are assets of Node.js. The others are appended, so that
// a server can send the executable without them: see appended-files.ts. On macOS all are assets.
import { existsSync } from 'node:fs';
import { getAssetKeys, getRawAsset } from 'node:sea';
import { AppendedFiles } from '@ropewalk/kit/appended-files';

declare global {
  /** Opened by the first script when the program starts, so that an upgrade of the file does not mix two versions. */
  var PLATFORM_APPENDED: AppendedFiles | undefined;
}

/** The executable of this process, even if a file of the same name has replaced it. */
const RUNNING = '/proc/self/exe';

/** Whether this executable has the servers and daemons. A workspace's has only the agent and the commands. */
export function containsWhole(): boolean {
  globalThis.PLATFORM_APPENDED ??= AppendedFiles.open(existsSync(RUNNING) ? RUNNING : process.execPath);
  return contains('whole.js');
}

export function contains(name: string): boolean {
  return globalThis.PLATFORM_APPENDED?.has(name) || getAssetKeys().includes(name);
}

/** @throws Error if the executable does not contain the file */
export function contained(name: string): Buffer {
  const appended = globalThis.PLATFORM_APPENDED;
  return appended?.has(name) ? appended.read(name) : Buffer.from(getRawAsset(name));
}
