import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { AppError, errorText, type Logger } from '@platform/kit';
import { isAtLeast } from '@platform/kit/version';
import { type InstallOptions, installTerraform } from './install.ts';
import { INSTALLED_VERSION, TERRAFORM_SUMS } from './sums.ts';
import { type TerraformBinary, terraformVersion } from './version.ts';

export interface FindOptions {
  /** A path the person chose; nothing else is then looked at. */
  path?: string | undefined;
  /** Where to search and what the version check runs with. */
  env: NodeJS.ProcessEnv;
  log: Logger;
  /** Absent: never install. */
  install?: InstallOptions | undefined;
}

/**
 * The terraform to use: the chosen path, else the first on PATH, else an installed copy. Versions before 1.1.0 do
 * not serve; from 1.13 on a warning is logged, since nobody tried them.
 * @throws AppError `unavailable` saying what to do when there is none.
 */
export async function findTerraform(options: FindOptions): Promise<TerraformBinary> {
  const path = options.path ? await executable(options.path) : await onPath(options.env['PATH'] ?? '');
  let problem = 'there is no terraform on PATH';
  if (options.path && !path) problem = `${options.path} is not an executable file`;
  if (path) {
    const version = await terraformVersion(path, options.env).catch((err) => {
      if (options.path) throw err;
      // a version manager's stand-in, say, which has nothing to stand in for
      problem = errorText(err);
      return undefined;
    });
    if (version !== undefined && isAtLeast(version, '1.1.0')) {
      if (isAtLeast(version, '1.13.0'))
        options.log.warn('this terraform is newer than the newest tried version', { path, version, newest: '1.12' });
      return { path, version };
    }
    if (version !== undefined) problem = `${path} is version ${version}, older than 1.1.0`;
  }
  const sums = options.install?.sums ?? TERRAFORM_SUMS;
  if (options.install && !options.path && sums[options.install.version ?? INSTALLED_VERSION]) {
    if (path) options.log.warn('the terraform on PATH does not serve: another is installed', { reason: problem });
    return installTerraform(options.install);
  }
  throw new AppError(
    'unavailable',
    `No usable terraform: ${problem}. Install terraform 1.1.0 or newer on PATH, or name its path in the options.`,
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
