import { join } from 'node:path';
import { PROGRAM, type RunningProgram, startProgram } from './harness.ts';

export interface ProxyProcessOptions {
  /** An empty folder as its home. */
  dir: string;
  token: string;
  /** Where the server is. */
  primaryUrl: string;
  /** The access URL of the proxy. */
  url: string;
  /** On 127.0.0.1. Default: the port of the access URL. */
  port?: number;
  wildcard: string;
  /** Of its folder. Each process of a proxy needs a separate one. */
  name?: string;
}

/** Starts the real `coder wsproxy server` in its own process. */
export function startProxyProcess(options: ProxyProcessOptions): RunningProgram {
  const { dir, token, primaryUrl, url, port = new URL(url).port, wildcard, name = 'proxy' } = options;
  return startProgram(PROGRAM, ['wsproxy', 'server', '--http-address', `127.0.0.1:${port}`], {
    env: {
      PATH: process.env['PATH'],
      HOME: dir,
      CODER_CONFIG_DIR: join(dir, name),
      CODER_PROXY_SESSION_TOKEN: token,
      CODER_PRIMARY_ACCESS_URL: primaryUrl,
      CODER_ACCESS_URL: url,
      CODER_WILDCARD_ACCESS_URL: wildcard,
    },
  });
}
