import { join } from 'node:path';
import { AppError, errorText } from '@ropewalk/kit';
import { readOwned } from '../isolation/tree.ts';
import { STATE_FILE } from './state-file.ts';

const MAX_BYTES = 1 << 20;

/**
 * Checks after an init that Terraform writes its state to the file that the daemon reads. With another backend, the
 * server would have no state of the build's resources, and no later build could change or destroy them.
 * @throws AppError `invalid` that names the backend.
 */
export function checkBackend(dir: string, owner: number | undefined): void {
  let backend: { type?: string; config?: { path?: string | null; workspace_dir?: string | null } | null } | undefined;
  try {
    const file = readOwned(join(dir, '.terraform', STATE_FILE), owner, MAX_BYTES);
    ({ backend } = JSON.parse(file) as { backend?: typeof backend });
  } catch (cause) {
    // init writes the file only if the template names a backend
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw new AppError('invalid', `Cannot read which backend keeps the template's state: ${errorText(cause)}`, {
      cause,
    });
  }
  if (!backend) return;
  const { type, config } = backend;
  const isOwn = type === 'local' && [undefined, null, '', STATE_FILE].includes(config?.path);
  if (isOwn) return;
  throw new AppError(
    'invalid',
    `The template keeps its Terraform state in the backend ${JSON.stringify(type ?? '')}. ` +
      "The server keeps each workspace's state itself: remove the backend or cloud block from the template.",
  );
}
