import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Whether Terraform starts providers as their own processes for an initialized template. */
export function usesPlugins(dir: string): boolean {
  return existsSync(join(dir, '.terraform', 'providers'));
}
