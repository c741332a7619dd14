import { chmod, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, type Clock, ensureDirectory, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { download, shownUrl } from './download.ts';
import { lockFile } from './lock.ts';
import { INSTALLED_VERSION, type SumTable, TERRAFORM_SUMS } from './sums.ts';
import { unpackProgram } from './unpack-program.ts';
import { type TerraformBinary, terraformVersion } from './version.ts';

export const DEFAULT_BASE_URL = 'https://releases.hashicorp.com';

export interface InstallOptions {
  cacheDir: string;
  log: Logger;
  env: NodeJS.ProcessEnv;
  /** A mirror with the publisher's paths. Its archives must match our own checksums. */
  baseUrl?: string | undefined;
  version?: string | undefined;
  sums?: SumTable | undefined;
  signal?: AbortSignal | undefined;
  clock?: Clock | undefined;
}

/** This machine's key, such as `linux_amd64`. */
export function platformKey(): string {
  const os = process.platform === 'win32' ? 'windows' : process.platform;
  const arch = ({ x64: 'amd64', ia32: '386' } as Record<string, string>)[process.arch] ?? process.arch;
  return `${os}_${arch}`;
}

/**
 * The engine that `installTerraform` installs. Undefined if the checksum for this machine is unknown. Nothing is
 * downloaded before a job calls `install`.
 */
export function installableTerraform(options: InstallOptions): TerraformBinary | undefined {
  const version = options.version ?? INSTALLED_VERSION;
  if (!(options.sums ?? TERRAFORM_SUMS)[version]?.[platformKey()]) return undefined;
  const install = (signal: AbortSignal) => installTerraform({ ...options, signal });
  return { path: installedPath(options.cacheDir), version, engine: 'terraform', install };
}

const installedPath = (cacheDir: string): string =>
  join(cacheDir, process.platform === 'win32' ? 'terraform.exe' : 'terraform');

/**
 * Installs terraform in the cache and returns its path. It unpacks only archives whose SHA-256 is in the table.
 * Concurrent callers, also those of other processes, install it once.
 * @throws AppError `unavailable` if the download fails or the checksum differs.
 */
export async function installTerraform(options: InstallOptions): Promise<TerraformBinary> {
  const version = options.version ?? INSTALLED_VERSION;
  const platform = platformKey();
  const sum = (options.sums ?? TERRAFORM_SUMS)[version]?.[platform];
  if (!sum)
    throw new AppError('unavailable', `Cannot install terraform ${version} for ${platform}: its checksum is unknown.`);
  await ensureDirectory(options.cacheDir, { mode: 0o700 });
  const target = installedPath(options.cacheDir);
  const release = await lockFile(join(options.cacheDir, 'lock'), options.clock ?? systemClock, options.signal);
  try {
    if ((await installedVersion(target, options.env)) === version)
      return { path: target, version, engine: 'terraform' };
    const base = (options.baseUrl ?? DEFAULT_BASE_URL).replace(/\/+$/, '');
    const url = `${base}/terraform/${version}/terraform_${version}_${platform}.zip`;
    options.log.info('installing terraform', { version, platform });
    const partial = `${target}.${process.pid}.partial`;
    try {
      await rm(partial, { force: true }); // of a dead process with this id
      await download({ url, sha256: sum, signal: options.signal }, partial).catch((err) => {
        options.signal?.throwIfAborted();
        throw new AppError('unavailable', `Cannot install terraform ${version}: ${errorText(err)}`, { cause: err });
      });
      await writeFile(partial, await unpackProgram(await readFile(partial), shownUrl(url)));
      await chmod(partial, 0o755);
      await rename(partial, target);
    } finally {
      await rm(partial, { force: true });
    }
    const { version: reported } = await terraformVersion(target, options.env);
    if (reported !== version)
      throw new AppError('unavailable', `The installed terraform reports version ${reported}, not ${version}.`);
    return { path: target, version, engine: 'terraform' };
  } finally {
    await release();
  }
}

async function installedVersion(path: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  try {
    return (await terraformVersion(path, env)).version;
  } catch {
    return undefined; // absent or damaged
  }
}
