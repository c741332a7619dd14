import { posixScript } from './posix.ts';
import { windowsScript } from './windows.ts';

export type Platform =
  | 'linux_amd64'
  | 'linux_arm64'
  | 'linux_armv7'
  | 'darwin_amd64'
  | 'darwin_arm64'
  | 'windows_amd64'
  | 'windows_arm64';

/**
 * Returns the scripts that start an agent, by operating system and architecture: the values of
 * CODER_AGENT_SCRIPT_<platform>. The provider fills in two placeholders, ACCESS_URL and AUTH_TYPE, each in `${}`.
 */
export function initScripts(): Record<Platform, string> {
  return {
    linux_amd64: posixScript('linux', 'amd64'),
    linux_arm64: posixScript('linux', 'arm64'),
    linux_armv7: posixScript('linux', 'armv7'),
    darwin_amd64: posixScript('darwin', 'amd64'),
    darwin_arm64: posixScript('darwin', 'arm64'),
    windows_amd64: windowsScript('amd64'),
    windows_arm64: windowsScript('arm64'),
  };
}
