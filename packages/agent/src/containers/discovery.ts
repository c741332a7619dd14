import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Project } from './command.ts';
import { isInstalled, runProgram, type Surroundings } from './program.ts';

const TIMEOUT_MS = 30_000;
/** The most Git repositories and dev containers that are looked at. */
const MAX_REPOSITORIES = 200;
const MAX_PROJECTS = 100;

/** The places of a configuration in a folder, as the specification of dev containers names them. */
const PLACES = ['.devcontainer/devcontainer.json', '.devcontainer.json', '.devcontainer/*/devcontainer.json'];
/**
 * A repository's configuration can name programs. A dev container writes to the folder of its project, and an
 * unpacked archive may bring a configuration. The agent lists files by itself, so Git runs none of these programs here: no
 * monitor of the file system, and no transport to fetch missing objects.
 */
const HARMLESS = ['-c', 'core.fsmonitor=false', '-c', 'protocol.allow=never'];
const PLACE = /^(?:(.*)\/)?(?:\.devcontainer\/(?:[^/]+\/)?devcontainer\.json|\.devcontainer\.json)$/;

/**
 * Finds dev containers in the Git repository `directory`, or in those directly below it. Files that Git ignores do not
 * count. Never throws: a repository that cannot be read has none.
 */
export async function discover(directory: string, { env }: Surroundings): Promise<Project[]> {
  if (!isInstalled('git', env)) return [];
  const found: Project[] = [];
  for (const repository of await repositories(directory)) {
    const patterns = PLACES.flatMap((place) => [`:(glob)${place}`, `:(glob)**/${place}`]);
    const args = [...HARMLESS, 'ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...patterns];
    const run = await runProgram('git', args, { env, cwd: repository }, { timeoutMs: TIMEOUT_MS }).catch(
      () => undefined,
    );
    for (const path of run?.code === 0 ? run.stdout.split('\0') : []) {
      const [, folder = ''] = PLACE.exec(path) ?? [undefined, undefined];
      const configPath = join(repository, path);
      // a deleted file stays in the index until it is committed
      if (!PLACE.test(path) || !existsSync(configPath) || found.length >= MAX_PROJECTS) continue;
      found.push({ workspaceFolder: join(repository, folder), configPath });
    }
  }
  return found;
}

async function repositories(directory: string): Promise<string[]> {
  if (existsSync(join(directory, '.git'))) return [directory];
  if (dirname(directory) === directory) return [];
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && existsSync(join(directory, entry.name, '.git')))
    .map((entry) => join(directory, entry.name))
    .slice(0, MAX_REPOSITORIES);
}
