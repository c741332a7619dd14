import { join } from 'node:path';
import { homeFolder } from '@ropewalk/kit/home';

/** Replaces a leading `~` of a path by the home directory. */
export function expandHome(path: string, env: NodeJS.ProcessEnv): string {
  return path === '~' ? homeFolder(env) : path.startsWith('~/') ? join(homeFolder(env), path.slice(2)) : path;
}
