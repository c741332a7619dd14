import { join } from 'node:path';
import type { Client } from '@ropewalk/client';
import { AppError } from '@ropewalk/kit/errors';
import { clientTls } from './client-tls.ts';
import { readConfig } from './config-dir.ts';
import type { Context, Program } from './context.ts';
import type { GlobalFlags } from './globals.ts';
import type { Io } from './io.ts';
import type { ServerWarnings } from './server-warnings.ts';
import { readSession } from './session-store.ts';
import type { ValuesOf } from './types.ts';

export interface ContextInput {
  env: NodeJS.ProcessEnv;
  io: Io;
  signal: AbortSignal;
  globals: ValuesOf<GlobalFlags>;
  home: string;
  warnings: ServerWarnings;
  program: Program;
  isSet: (flag: string) => boolean;
}

export function createContext(input: ContextInput): Context {
  const { env, io, signal, globals, warnings, program, isSet } = input;
  const configDir = globals['global-config'].replace(/^~(?=\/|$)/, input.home);
  const clients = new Map<boolean, Promise<Client>>();
  const clientOf = async (url: string, token: string, kept = false): Promise<Client> => {
    const { createClient } = await import('@ropewalk/client');
    const { nodeFetch, nodeFetchWith } = await import('@ropewalk/client/node-fetch');
    const { VERSION } = await import('@ropewalk/kit/version');
    const tls = await clientTls(globals);
    const more = await extraHeaders(globals, env);
    // the audit and connection logs show it
    const named = Object.keys(more).some((name) => name.toLowerCase() === 'user-agent');
    const headers = named ? more : { 'User-Agent': `coder/${VERSION} (${process.platform}; ${process.arch})`, ...more };
    const client: Client = createClient({
      url,
      token,
      fetch: tls ? nodeFetchWith(tls) : nodeFetch,
      ...(tls ? { tls } : {}),
      headers,
      blocksDirect: globals['disable-direct-connections'],
      region: globals['connection-region'] ?? '',
      ...(kept ? {} : { signal }),
      // a command that opens a stream should not wait for another request
      onAnswer: (answered, to) =>
        warnings.inspect(answered, to === 'call' ? () => client.call('GET /buildinfo') : undefined),
    });
    return client;
  };
  const loggedIn = async (kept: boolean) => {
    const url = globals.url || readConfig(join(configDir, 'url'));
    const token = globals.token || (await readSession({ configDir, env }, url));
    if (!url) {
      throw new AppError('unauthenticated', 'You are not logged in. Log in with: coder login <url>');
    }
    if (!token) throw new AppError('unauthenticated', `You are not logged in. Log in with: coder login ${url}`);
    return clientOf(url, token, kept);
  };
  return {
    io,
    env,
    signal,
    globals,
    configDir,
    program,
    isSet,
    clientOf,
    client: ({ keepOnInterrupt } = { keepOnInterrupt: false }) => {
      const client = clients.get(keepOnInterrupt) ?? loggedIn(keepOnInterrupt);
      clients.set(keepOnInterrupt, client);
      return client;
    },
    interactive: globals['force-tty'] || (io.stdin.isTTY === true && io.stdout.isTTY === true),
  };
}

/** The headers that `--header` and `--header-command` add to each request. @throws AppError. */
export async function extraHeaders(
  globals: ValuesOf<GlobalFlags>,
  env: NodeJS.ProcessEnv,
): Promise<Record<string, string>> {
  const lines = [...globals.header];
  if (globals['header-command']) {
    const { execFile } = await import('node:child_process');
    const { promisify } = await import('node:util');
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', globals['header-command']], {
      env,
      timeout: 30_000,
    }).catch((cause: Error) => {
      throw new AppError('unavailable', `--header-command failed: ${cause.message}`, { cause });
    });
    lines.push(...stdout.split('\n').filter((line) => line.trim() !== ''));
  }
  const pairs = lines.map((line) => {
    const at = line.indexOf('=');
    if (at < 1) throw new AppError('invalid', 'Invalid header: write it as name=value.');
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()] as const;
  });
  return Object.fromEntries(pairs);
}
