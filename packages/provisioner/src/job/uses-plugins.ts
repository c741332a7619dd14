import { stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Whether Terraform starts providers as processes of their own for an initialized template. */
export function usesPlugins(dir: string): Promise<boolean> {
  return stat(join(dir, '.terraform', 'providers')).then(
    () => true,
    () => false,
  );
}
