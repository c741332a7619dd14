import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { isAtLeast } from '@ropewalk/kit/version';
import { type InstallOptions, installTerraform } from './install.ts';
import { INSTALLED_VERSION, TERRAFORM_SUMS } from './sums.ts';
import { type TerraformBinary, terraformVersion } from './version.ts';

export interface FindOptions {
  /** A configured path. With it, no other terraform is used. */
  path?: string | undefined;
  /** The environment for the search in PATH and for the version check. */
  env: NodeJS.ProcessEnv;
  log: Logger;
  /** Absent: never install. */
  install?: InstallOptions | undefined;
}

/**
 * Finds the terraform to use: the configured path, else the first on PATH, else an installed copy. Versions before
 * 1.1.0 do not work. Versions from 1.16 are untested, so they cause a warning.
 * @throws AppError `unavailable` that says what to do next, if no terraform is usable.
 */
export async function findTerraform(options: FindOptions): Promise<TerraformBinary> {
  const path = options.path ? await executable(options.path) : await onPath(options.env['PATH'] ?? '');
  let problem = 'terraform is not on PATH';
  if (options.path && !path) problem = `${options.path} is not an executable file`;
  if (path) {
    const known = await terraformVersion(path, options.env).catch((err) => {
      if (options.path) throw err;
      // for example, a version manager's shim without an installed version
      problem = errorText(err);
      return undefined;
    });
    if (known && isAtLeast(known.version, '1.1.0')) {
      const { version } = known;
      if (isAtLeast(version, '1.16.0'))
        options.log.warn('this terraform is newer than the newest tested version', { path, version, newest: '1.15' });
      return { path, ...known };
    }
    if (known) problem = `${path} is version ${known.version}, older than 1.1.0`;
  }
  const sums = options.install?.sums ?? TERRAFORM_SUMS;
  if (options.install && !options.path && sums[options.install.version ?? INSTALLED_VERSION]) {
    if (path) options.log.warn('cannot use the terraform on PATH; using a downloaded one', { reason: problem });
    return installTerraform(options.install);
  }
  throw new AppError(
    'unavailable',
    `No usable terraform: ${problem}. Install terraform 1.1.0 or newer on PATH, or set --terraform-binary to its path.`,
  );
}

async function executable(path: string): Promise<string | undefined> {
  try {
    const real = await realpath(path);
    if (!(await stat(real)).isFile()) return undefined;
    await access(real, constants.X_OK);
    return isAbsolute(path) ? path : real;
  } catch {
    return undefined;
  }
}

async function onPath(path: string): Promise<string | undefined> {
  const name = process.platform === 'win32' ? 'terraform.exe' : 'terraform';
  for (const dir of path.split(delimiter)) {
    const found = isAbsolute(dir) ? await executable(join(dir, name)) : undefined;
    if (found) return found;
  }
  return undefined;
}
