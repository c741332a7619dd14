// The executable's first script. It is small, because Node.js reads it before anything else. Each part of the program
// is an asset with a code cache: see bundle.ts.
const { getRawAsset } = process.getBuiltinModule('node:sea');
const { createRequire } = process.getBuiltinModule('node:module');
const { Script } = process.getBuiltinModule('node:vm');

/** The small parts, and the words that start each. */
const PROGRAMS = { launcher: 'provisioner', runner: 'provisioner' };
/** The parts whose commands begin with their name. */
const DAEMONS = ['agent', 'operator', 'provisioner'];
const isProgram = (word: string | undefined): word is keyof typeof PROGRAMS =>
  word !== undefined && Object.hasOwn(PROGRAMS, word);

function runPart(name: string): void {
  const cachedData = Buffer.from(getRawAsset(`${name}.cache`));
  const source = Buffer.from(getRawAsset(`${name}.js`)).toString('latin1');
  const script = new Script(source, { filename: `${name}.js`, ...(cachedData.length > 0 ? { cachedData } : {}) });
  if (script.cachedDataRejected !== false && process.env['NODE_DEBUG'] === 'coder')
    console.error(`The part ${name} runs without its code cache.`);
  const { execPath } = process;
  script.runInThisContext()(createRequire(execPath), execPath, '/', { url: `file://${execPath}` });
}

// Each process of the executable gets its options from the executable. As arguments, they would be the command's.
process.execArgv = [];
globalThis.PLATFORM_RUN_PART = runPart;
const [group, name] = process.argv.slice(2);
const own = DAEMONS.includes(group!) ? group! : 'client';
runPart(isProgram(name) && group === PROGRAMS[name] ? name : own);
