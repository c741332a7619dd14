// A mirror of Terraform providers over HTTPS, with one provider: this project's own under another address.

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { platformKey } from '@ropewalk/provisioner/terraform/install';
import { zipSync } from 'fflate';

/** The bytes next to the program, so that the package has more bytes than a message. They do not compress. */
const FILLER = 9 << 20;
const SERVER = join(dirname(import.meta.dirname), 'packages/terraform-provider/src/server.ts');

const START = `#!/bin/sh
FIRST
exec ${process.execPath} "$(dirname "$0")/main.mjs"
`;

/** Starts the provider as Terraform starts plugins: it prints where it listens, and ends with its connection. */
const PROGRAM = `
import { mkdtempSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
const { startProvider } = await import(${JSON.stringify(SERVER)});
const dir = mkdtempSync(join(tmpdir(), 'thing-'));
const log = { debug() {}, info() {}, warn() {}, error() {}, keeps: () => false, child: () => log };
await startProvider({ socketPath: join(dir, 'provider'), env: process.env, log });
const server = createServer((client) => {
  const provider = connect(join(dir, 'provider'));
  client.pipe(provider).pipe(client);
  client.on('error', () => {}).on('close', () => process.exit());
});
server.listen(join(dir, 'plugin'), () => console.log('1|5|unix|' + join(dir, 'plugin') + '|grpc'));
`;

export interface ProviderMirror {
  /** The source of the provider in templates, without resources of its own names. */
  source: string;
  /** The block of Terraform's configuration file that selects the mirror. */
  config: string;
  env: Record<string, string>;
  /** The number of packages that it has sent. */
  sent(): number;
  close(): Promise<void>;
}

/** `filler`: the size of the file next to the program. `start`: shell commands that the program runs first. */
export async function startProviderMirror({ filler = FILLER, start = '' } = {}): Promise<ProviderMirror> {
  const dir = mkdtempSync(join(tmpdir(), 'mirror-'));
  // builds under their own uids read the certificate
  chmodSync(dir, 0o755);
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert];
  const names = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2'];
  execFileSync('openssl', ['req', '-x509', ...made, ...names], { stdio: 'ignore' });
  const archive = zipSync(
    {
      // Node.js rejects the name as that of a script
      'terraform-provider-thing_v1.0.0': [
        Buffer.from(START.replace('FIRST', () => start)),
        { os: 3, attrs: 0o100755 << 16 },
      ],
      'main.mjs': Buffer.from(PROGRAM),
      filler: [randomBytes(filler), { level: 0 }],
    },
    { level: 0 },
  );
  let sent = 0;
  const https = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, ({ url = '' }, res) => {
    const name = /^\/mirror\.test\/acme\/thing\/(.+)$/.exec(url)?.[1];
    res.setHeader('Content-Type', name?.endsWith('.json') ? 'application/json' : 'application/zip');
    if (name === 'index.json') res.end(JSON.stringify({ versions: { '1.0.0': {} } }));
    else if (name === '1.0.0.json') res.end(JSON.stringify({ archives: { [platformKey()]: { url: 'thing.zip' } } }));
    else if (name === 'thing.zip') {
      sent++;
      res.end(archive);
    } else res.writeHead(404).end();
  });
  await new Promise<void>((resolve) => https.listen(0, '127.0.0.1', resolve));
  const { port } = https.address() as AddressInfo;
  return {
    source: 'mirror.test/acme/thing',
    config: `provider_installation {
  network_mirror {
    url     = "https://127.0.0.1:${port}/"
    include = ["mirror.test/*/*"]
  }
  direct {
    exclude = ["mirror.test/*/*"]
  }
}
`,
    // the program has no separate certificate for Terraform's connection
    env: { SSL_CERT_FILE: cert, TF_DISABLE_PLUGIN_TLS: '1' },
    sent: () => sent,
    async close() {
      https.closeAllConnections();
      await new Promise((resolve) => https.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
