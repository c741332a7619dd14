// Runs after `npm ci`. An npm that does not support `allowScripts` builds the optional native parts of ssh2. The
// executable contains none, so checkouts must not use them either.
import { rmSync } from 'node:fs';

for (const built of ['ssh2/lib/protocol/crypto/build', 'cpu-features/build'])
  rmSync(new URL(`../node_modules/${built}`, import.meta.url), { recursive: true, force: true });
