import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@platform/kit';
import { STATE_FILE } from './state-file.ts';

/**
 * Checks after an init that Terraform keeps its state where the daemon reads it. What a build makes with another
 * backend is in no state that the server has: no later build could change or destroy it.
 * @throws AppError `invalid` that names the backend.
 */
export async function checkBackend(dir: string): Promise<void> {
  let file: string;
  try {
    file = await readFile(join(dir, '.terraform', STATE_FILE), 'utf8');
  } catch {
    return; // written only for a template that names a backend
  }
  const { backend } = JSON.parse(file) as {
    backend?: { type?: string; config?: { path?: string | null; workspace_dir?: string | null } | null };
  };
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
