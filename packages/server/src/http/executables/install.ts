// Installs this server's own coder command: `curl -fsSL <server>/install.sh | sh`.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { EXECUTABLES } from '../../app/agent/executables.ts';
import type { Signer } from '../../app/agent/signing-key.ts';
import type { Services } from '../../app/context/context.ts';
import { type describeExecutables, SIGNATURE_TYPE } from './binaries.ts';

declare global {
  /** The installer. Set by the single executable; a checkout reads its file. */
  var PLATFORM_INSTALL_SCRIPT: string | undefined;
}

/** The command that installs this server's coder. */
export function installCommand(accessUrl: string): string {
  return `curl -fsSL ${accessUrl}/install.sh | sh`;
}

/** Serves the installer, and the index of executables with their checksums. */
export function installRoutes(
  app: FastifyInstance,
  services: Services,
  describe: ReturnType<typeof describeExecutables>,
  signer: Signer,
): void {
  /** The available executables, by file name, with their checksums. */
  const executables = async (): Promise<{ name: string; size: number; sum: string }[]> => {
    const found = await Promise.all(
      EXECUTABLES.map(async ([os, arch]) => {
        const executable = await describe(os, arch);
        if (!executable) return [];
        const name = `coder-${os}-${arch}${os === 'windows' ? '.exe' : ''}`;
        return [{ name, size: executable.size, sum: executable.sha256 }];
      }),
    );
    return found.flat();
  };
  app.get('/install.sh', async (_request, reply) =>
    reply
      .type('text/x-shellscript; charset=utf-8')
      .header('cache-control', 'no-cache')
      .send(servedScript(services.accessUrl)),
  );
  const sums = async () => (await executables()).map(({ name, sum }) => `${sum}  ${name}\n`).join('');
  app.get('/bin/SHA256SUMS', async (_request, reply) =>
    reply
      .type('text/plain; charset=utf-8')
      .header('cache-control', 'no-cache')
      .send(await sums()),
  );
  app.get('/bin/SHA256SUMS.asc', async (_request, reply) => {
    const signature = await signer.sign(createHash('sha256').update(await sums()));
    return reply.type(SIGNATURE_TYPE).header('cache-control', 'no-cache').send(signature);
  });
  app.get('/bin/signing-key.asc', async (_request, reply) =>
    reply
      .type('application/pgp-keys')
      .header('cache-control', 'no-cache')
      .send(await signer.publicKey()),
  );
  app.get('/bin', async (_request, reply) => {
    const rows = (await executables()).map(
      ({ name, size }) => `<li><a href="/bin/${name}">${name}</a> (${(size / 1e6).toFixed(0)} MB)</li>`,
    );
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
      .send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>coder</title></head>
<body style="font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1rem">
<h1>The coder command of this server</h1><pre>${escapeHtml(installCommand(services.accessUrl))}</pre>
<ul>${rows.join('\n')}<li><a href="/bin/SHA256SUMS">SHA256SUMS</a></li></ul>
<p>Each file has an OpenPGP signature: append <code>.asc</code> to its address. They are made with
<a href="/bin/signing-key.asc">the key of this deployment</a>.</p>
<p>For other systems, the operator of this server runs <code>npm run build all</code> in its checkout, or puts the
executables in the directory of the server's executable.</p></body></html>`);
  });
}

const escapeHtml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** The repository's installer, with this server as the release that it installs from. */
function servedScript(accessUrl: string): string {
  const script =
    globalThis.PLATFORM_INSTALL_SCRIPT ?? readFileSync(join(import.meta.dirname, '../../../../../install.sh'), 'utf8');
  const from = `${accessUrl}/bin`.replaceAll("'", '%27');
  return script.replace("\nfrom=''\n", () => `\nfrom='${from}'\n`).replace('\nserved=no\n', '\nserved=yes\n');
}
