import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { optionsPage } from './docs.ts';

const path = join(import.meta.dirname, '../../../../docs/reference/server-options.md');
ensureDirectorySync(dirname(path));
writeFileSync(path, optionsPage());
