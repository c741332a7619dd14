// The executable's first script. It is small, because Node.js reads it before anything else. Each part of the program
// is a file with a code cache: see bundle.ts.
import { contained, containsWhole } from './contained.ts';
import { partFor } from './part.ts';

const { createRequire } = process.getBuiltinModule('node:module');
const { Script } = process.getBuiltinModule('node:vm');

// Each process of the executable gets its options from the executable. As arguments, they would be the command's.
process.execArgv = [];
const wanted = partFor(process.argv.slice(2));
const part = wanted === 'whole' && !containsWhole() ? 'command' : wanted;
const cachedData = contained(`${part}.cache`);
const source = contained(`${part}.js`).toString('latin1');
const script = new Script(source, { filename: `${part}.js`, ...(cachedData.length > 0 ? { cachedData } : {}) });
if (script.cachedDataRejected !== false && process.env['NODE_DEBUG'] === 'coder')
  console.error(`The part ${part} runs without its code cache.`);
const { execPath } = process;
script.runInThisContext()(createRequire(execPath), execPath, '/', { url: `file://${execPath}` });
