// The executable's first script. It is small, because Node.js reads it before anything else. The command has two parts:
// one for the commands that are clients of a server, and one with the whole program. Each is an asset with a code
// cache.
const { getRawAsset } = process.getBuiltinModule('node:sea');
const { createRequire } = process.getBuiltinModule('node:module');
const { Script } = process.getBuiltinModule('node:vm');

function runPart(name: 'client' | 'whole'): void {
  const cachedData = Buffer.from(getRawAsset(`${name}.cache`));
  const source = Buffer.from(getRawAsset(`${name}.js`)).toString('latin1');
  const script = new Script(source, { filename: `${name}.js`, ...(cachedData.length > 0 ? { cachedData } : {}) });
  if (script.cachedDataRejected && process.env['NODE_DEBUG'] === 'coder') console.error('The code cache was rejected.');
  const { execPath } = process;
  script.runInThisContext()(createRequire(execPath), execPath, '/', { url: `file://${execPath}` });
}

globalThis.PLATFORM_RUN_WHOLE = () => runPart('whole');
runPart('client');
