import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { unknownKeysPage } from './unknown-keys-page.ts';

writeFileSync(join(import.meta.dirname, '../../../docs/reference/unknown-keys.md'), unknownKeysPage());
