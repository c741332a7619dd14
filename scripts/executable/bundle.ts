// Bundles the parts of the executable as ASCII scripts. Each is a function of (require, __filename, __dirname,
// meta).
import { readFileSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { headCommit } from '@ropewalk/kit/head-commit';
import { build, type Plugin } from 'esbuild';
import { PARTS } from './part.ts';

const here = import.meta.dirname;

/** The error of a server's or daemon's command in the executable of a workspace. */
const ONLY_COMMANDS = 'This executable has only the agent and the commands. It cannot run servers and daemons.';
const FULL = 'Install the full program from a release: sh install.sh --from URL';

/**
 * Loads Node's own modules when their importer runs. Without this, a bundle loads all of them at its start: `coder
 * version` would load HTTP, TLS and the inspector, which only the server needs.
 */
const lazyBuiltins: Plugin = {
  name: 'lazy-builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[a-z]/ }, ({ path, kind }) =>
      // import() too: Node's module object for `http` reads each of its exports, and one of them loads all of `fetch`
      (kind === 'import-statement' || kind === 'dynamic-import') && isBuiltin(path)
        ? { path, namespace: 'builtin' }
        : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
      loader: 'js',
    }));
  },
};

/** The native parts of ssh2, which we do not ship. Without this, the program would search for them on the disk. */
const withoutNativeSsh2: Plugin = {
  name: 'without-native-ssh2',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^cpu-features$|sshcrypto\.node$/ }, ({ path }) => ({ path, namespace: 'absent' }));
    onLoad({ filter: /.*/, namespace: 'absent' }, () => ({ contents: "throw new Error('not there');" }));
  },
};

/** The package's ES module loads gRPC from a folder at run time. Its CommonJS module becomes part of the bundle. */
const bundledGrpc: Plugin = {
  name: 'bundled-grpc',
  setup({ onResolve, resolve }) {
    onResolve({ filter: /^@opentelemetry\/otlp-grpc-exporter-base$/ }, ({ path, importer, kind, resolveDir }) =>
      kind === 'require-call' ? undefined : resolve(path, { kind: 'require-call', importer, resolveDir }),
    );
  },
};

/** Leaves out the commands that are servers or daemons, except the agent: see part.ts. A workspace's executable has no others. */
const withoutDaemons: Plugin = {
  name: 'without-daemons',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\/daemons\// }, ({ path, importer }) =>
      importer.endsWith(join('commands', 'index.ts')) && !path.includes('/daemons/agent/')
        ? { path, namespace: 'daemon' }
        : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'daemon' }, () => ({
      contents: `import { AppError } from '@ropewalk/kit';
        throw new AppError('precondition', ${JSON.stringify(ONLY_COMMANDS)}, { detail: ${JSON.stringify(FULL)} });`,
      resolveDir: here,
    }));
  },
};

async function bundle(entry: string, outfile: string, plugins: Plugin[]): Promise<void> {
  const { warnings } = await build({
    entryPoints: [join(here, entry)],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node26',
    charset: 'ascii',
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    plugins,
    define: {
      'globalThis.PLATFORM_COMMIT': JSON.stringify(headCommit(join(here, '../..')) ?? ''),
      'import.meta.url': '__meta.url',
      'import.meta.dirname': '__dirname',
      'import.meta.filename': '__filename',
    },
    // the executable unpacks them at run time
    external: ['@lydell/node-pty'],
    logLevel: 'warning',
  });
  if (warnings.length > 0) process.exitCode = 1;
}

/** Writes launch.js, worker.js and a script for each part to a folder. */
export async function makeParts(into: string): Promise<void> {
  await bundle('launch.ts', join(into, 'launch.js'), []);
  await bundle('../../packages/server/src/app/threads/thread.ts', join(into, 'worker.js'), [lazyBuiltins]);
  const plugins = [withoutNativeSsh2, bundledGrpc, lazyBuiltins];
  for (const name of PARTS) {
    const file = join(into, `${name}.js`);
    await bundle('entry.ts', file, name === 'whole' ? plugins : [withoutDaemons, ...plugins]);
    // Node.js reads one byte per character. esbuild escapes strings, but not regular expressions.
    const text = readFileSync(file, 'utf8').replaceAll(
      /[\u0080-\uffff]/g,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    writeFileSync(file, `(function(require,__filename,__dirname,__meta){${text}\n})`);
  }
}
