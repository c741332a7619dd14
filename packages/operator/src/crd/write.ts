// Writes the manifests of the custom resources and their reference page. Run by `npm run generate`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { generatedFiles } from './files.ts';

for (const [path, text] of generatedFiles()) {
  const file = join(import.meta.dirname, '../../../..', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
