// Makes the code cache of a part of the executable. It runs the part once, and stores the code that V8 compiled. Arguments:
// the name of the part, the path of its script, the path of the cache.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Script } from 'node:vm';
import { prepareDaemon } from './train-daemon.ts';
import { prepareSsh } from './train-ssh.ts';

/** What each part does in its run. */
const PREPARE: Record<string, () => Promise<string[]>> = {
  command: prepareSsh,
  whole: prepareDaemon,
};

const [part, source, cache] = process.argv.slice(2) as [string, string, string];
// a server builds the executable with its own options, such as the address of its metrics, which a second process cannot take
for (const name of Object.keys(process.env)) if (name.startsWith('CODER_')) delete process.env[name];
const words = await PREPARE[part]!();
process.argv = [process.execPath, process.execPath, ...words];
const script = new Script(readFileSync(source, 'latin1'), { filename: `${part}.js` });
process.on('exit', (code) => {
  if (code === 0) writeFileSync(cache, script.createCachedData());
});
setTimeout(() => process.exit(1), 20_000).unref();
script.runInThisContext()(createRequire(import.meta.url), source, '/', { url: import.meta.url });
