// The executable's first script. It is small, because Node.js reads it before anything else. The program has four parts:
// the commands that are clients of a server, the whole program, and two small ones for the processes that daemons start
// and that stay as long as they do. Each is an asset with a code cache.
const { getRawAsset } = process.getBuiltinModule('node:sea');
const { createRequire } = process.getBuiltinModule('node:module');
const { Script } = process.getBuiltinModule('node:vm');

function runPart(name: 'client' | 'whole' | 'launcher' | 'runner'): void {
  const cachedData = Buffer.from(getRawAsset(`${name}.cache`));
  const source = Buffer.from(getRawAsset(`${name}.js`)).toString('latin1');
  const script = new Script(source, { filename: `${name}.js`, ...(cachedData.length > 0 ? { cachedData } : {}) });
  if (script.cachedDataRejected && process.env['NODE_DEBUG'] === 'coder') console.error('The code cache was rejected.');
  const { execPath } = process;
  script.runInThisContext()(createRequire(execPath), execPath, '/', { url: `file://${execPath}` });
}

// Each process of the executable gets its options from the executable. As arguments, they would be the command's.
process.execArgv = [];
globalThis.PLATFORM_RUN_WHOLE = () => runPart('whole');
const [group, name] = process.argv.slice(2);
runPart(group === 'provisioner' && (name === 'launcher' || name === 'runner') ? name : 'client');
