import { type Chosen, type WorkspaceTags, workspaceTags } from '@ropewalk/hcl';
import { readVersion, type VersionSource } from './templates.ts';

export interface TagRequest {
  version: VersionSource;
  chosen: Chosen;
}

/** Runs on a worker thread. Undefined when the version's files are needed and not given. */
export async function evaluateTags({ version, chosen }: TagRequest): Promise<WorkspaceTags | undefined> {
  const found = await readVersion(version);
  return found && workspaceTags(found.template, found.planned, chosen);
}
