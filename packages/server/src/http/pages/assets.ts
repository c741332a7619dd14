import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';

declare global {
  /** Set by the single executable, which contains the assets. In a checkout `readAssets` reads them. */
  var PLATFORM_PAGE_ASSETS: Record<string, string> | undefined;
}

/** Files that pages load, by the name below /assets/. Pages import modules of other packages by the names in `BARE`. */
const FILES: Readonly<Record<string, string>> = {
  'xterm.mjs': '@xterm/xterm/lib/xterm.mjs',
  'xterm.css': '@xterm/xterm/css/xterm.css',
  'addon-fit.mjs': '@xterm/addon-fit/lib/addon-fit.mjs',
  'terminal.js': './terminal.js',
  'install.sh': '../../../../../install.sh',
};
const BARE: Readonly<Record<string, string>> = {
  '@xterm/xterm': 'xterm.mjs',
  '@xterm/addon-fit': 'addon-fit.mjs',
};
const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  sh: 'text/x-shellscript; charset=utf-8',
};

/** The text of every asset, from this checkout and its packages. */
export function readAssets(): Record<string, string> {
  const require = createRequire(import.meta.url);
  return Object.fromEntries(
    Object.entries(FILES).map(([name, file]) => {
      const path = file.startsWith('.') ? join(import.meta.dirname, file) : require.resolve(file);
      return [name, readFileSync(path, 'utf8')];
    }),
  );
}

export interface Assets {
  /** The path of an asset. It changes when the content of any asset changes. */
  path(name: string): string;
}

/** Serves the assets as cacheable for ever, since their paths change with them. Loads them for the first page. */
export function assetRoutes(app: FastifyInstance): Assets {
  let loaded: { version: string; files: Map<string, { plain: Buffer; packed: Buffer }> } | undefined;
  const load = () => {
    const texts = globalThis.PLATFORM_PAGE_ASSETS ?? readAssets();
    const version = createHash('sha256').update(JSON.stringify(texts)).digest('hex').slice(0, 16);
    const files = Object.entries(texts).map(([name, text]) => {
      const linked = Object.entries(BARE).reduce(
        (all, [bare, file]) => all.replaceAll(`from '${bare}'`, `from '/assets/${version}/${file}'`),
        text.replace(/\n\/\/# sourceMappingURL=\S*\s*$/, '\n'),
      );
      const plain = Buffer.from(linked);
      return [name, { plain, packed: gzipSync(plain) }] as const;
    });
    loaded = { version, files: new Map(files) };
    return loaded;
  };
  app.get('/assets/:version/:name', async (request, reply) => {
    const { version, name } = request.params as { version: string; name: string };
    const { version: now, files } = loaded ?? load();
    const file = files.get(name);
    if (!file || version !== now) return reply.callNotFound();
    const packed = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
    reply
      .type(TYPES[name.slice(name.lastIndexOf('.') + 1)]!)
      .header('cache-control', 'public, max-age=31536000, immutable')
      .header('x-content-type-options', 'nosniff')
      .header('vary', 'accept-encoding');
    if (packed) reply.header('content-encoding', 'gzip');
    return reply.send(packed ? file.packed : file.plain);
  });
  return { path: (name) => `/assets/${(loaded ?? load()).version}/${name}` };
}

/** Headers for pages that run only their own assets and connect only to this server. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    // the terminal writes style sheets and style attributes of its own
    "style-src 'self' 'unsafe-inline'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};
