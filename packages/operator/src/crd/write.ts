// Writes the manifests of the custom resources and their reference page. Run by `npm run generate`.
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { generatedFiles } from './files.ts';

for (const [path, text] of generatedFiles()) {
  const file = join(import.meta.dirname, '../../../..', path);
  ensureDirectorySync(dirname(file));
  writeFileSync(file, text);
}
