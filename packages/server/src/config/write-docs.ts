import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { optionsPage } from './docs.ts';

const path = join(import.meta.dirname, '../../../../docs/reference/server-options.md');
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, optionsPage());
