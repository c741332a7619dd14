import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { AppError, errorText } from '@ropewalk/kit';

const run = promisify(execFile);
const VERSION_TIMEOUT_MS = 30_000;

export interface TerraformBinary {
  /** Absolute path. */
  path: string;
  version: string;
  engine: Engine;
  /**
   * Downloads the program to `path`, unless it is there. Absent: it is there.
   * @throws AppError `unavailable` if the download fails, and the reason of `signal` if it fires.
   */
  install?: (signal: AbortSignal) => Promise<unknown>;
}

/** Terraform, and its fork with the same language, whose registry has other addresses. */
export type Engine = 'terraform' | 'opentofu';

/** As people read it: `terraform 1.11.4`. */
export const engineName = ({ engine, version }: Pick<TerraformBinary, 'version' | 'engine'>): string =>
  `${engine} ${version}`;

type Known = Pick<TerraformBinary, 'version' | 'engine'>;

const cache = new Map<string, Promise<Known>>();

/** The version of a terraform or tofu executable, asked once per path, size and modification time. */
export async function terraformVersion(path: string, env: NodeJS.ProcessEnv): Promise<Known> {
  const { mtimeMs, size } = await stat(path);
  const key = `${path}\0${mtimeMs}\0${size}`;
  let known = cache.get(key);
  if (!known) {
    known = askVersion(path, env);
    cache.set(key, known);
    known.catch(() => cache.delete(key));
  }
  return known;
}

const FIRST_LINE = /^(Terraform|OpenTofu) v(\d+\.\d+\.\d+\S*)/;

async function askVersion(path: string, env: NodeJS.ProcessEnv): Promise<Known> {
  try {
    // without -json: the JSON of both programs is the same
    const { stdout } = await run(path, ['version'], {
      // an answer needs no garbage collector, which took a quarter of the processor time
      env: { GOGC: 'off', ...env, CHECKPOINT_DISABLE: '1' },
      timeout: VERSION_TIMEOUT_MS,
      maxBuffer: 1 << 20,
    });
    const [, name, version] = FIRST_LINE.exec(stdout) ?? [];
    if (version === undefined) throw new Error('no version in its answer');
    return { version, engine: name === 'OpenTofu' ? 'opentofu' : 'terraform' };
  } catch (err) {
    throw new AppError('unavailable', `${path} does not answer "version": ${errorText(err)}`, { cause: err });
  }
}
