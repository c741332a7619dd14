import { posixScript } from './init-scripts/posix.ts';
import { windowsScript } from './init-scripts/windows.ts';

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
 * CODER_AGENT_SCRIPT_<platform>. `filledScript` fills in their two placeholders, ACCESS_URL and AUTH_TYPE, each in `${}`.
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

// biome-ignore lint/suspicious/noTemplateCurlyInString: these are the placeholders in the scripts
const ACCESS_URL = '${ACCESS_URL}';
// biome-ignore lint/suspicious/noTemplateCurlyInString: as above
const AUTH_TYPE = '${AUTH_TYPE}';

/** Fills in a script's placeholders: the server's URL with a trailing slash, and the agent's `auth`, such as `token`. */
export const filledScript = (script: string, { url, auth }: { url: string; auth: string }): string =>
  script.replaceAll(ACCESS_URL, () => url).replaceAll(AUTH_TYPE, () => auth);
