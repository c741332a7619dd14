// The agent's HTTP API in the tailnet, with upstream's routes. It has no sign-in: the coordinator and the relay let only
// clients reach the agent who may use the workspace.
import { readdir } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join, sep } from 'node:path';
import type { Duplex } from 'node:stream';
import { AppError, errorText } from '@ropewalk/kit';
import { describeInterfaces } from '@ropewalk/kit/network-interfaces';
import { ownValue } from '@ropewalk/kit/own-value';
import type { TailnetNode } from '@ropewalk/tailnet/node/tailnet-node';
import { acceptWebSocket, refuseUpgrade } from '@ropewalk/wire/websocket';
import { listeningPorts } from '../services/ports.ts';
import type { Workspace } from '../workspace.ts';
import type { TailnetServices } from './services.ts';

const MAX_BODY_BYTES = 64 * 1024;
const RECREATE = /^\/api\/v0\/containers\/devcontainers\/([0-9a-f-]{36})\/recreate$/i;
const STATUS: Partial<Record<string, number>> = { invalid: 400, forbidden: 403, not_found: 404, conflict: 409 };
const FILE_STATUS: Partial<Record<string, number>> = { ENOENT: 404, ENOTDIR: 404, EACCES: 403, EPERM: 403 };

export interface HttpApiOptions {
  node: TailnetNode;
  workspace: Workspace;
  devcontainers: TailnetServices['devcontainers'];
}

interface Answer {
  status?: number;
  body: unknown;
}

/** Serves HTTP on streams: `emit('connection', stream)`. */
export function createHttpApi(options: HttpApiOptions): Server {
  const server = createServer((request, response) => {
    answer(options, request).then(
      ({ status = 200, body }) => send(response, status, body),
      (err: unknown) => send(response, statusOf(err), { message: errorText(err) }),
    );
  });
  server.on('upgrade', (request: IncomingMessage, stream: Duplex, head: Buffer) =>
    upgrade(options, request, stream, head),
  );
  return server;
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const json = Buffer.from(`${JSON.stringify(body)}\n`);
  response.writeHead(status, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': json.length });
  response.end(json);
}

function statusOf(err: unknown): number {
  if (err instanceof AppError) return ownValue(STATUS, err.code) ?? 500;
  return ownValue(FILE_STATUS, (err as NodeJS.ErrnoException).code ?? '') ?? 500;
}

async function answer({ node, workspace, devcontainers }: HttpApiOptions, request: IncomingMessage): Promise<Answer> {
  const path = (request.url ?? '/').split('?', 1)[0]!;
  switch (`${request.method} ${path}`) {
    case 'GET /':
      return { body: { message: 'Hello from the agent!' } };
    case 'GET /api/v0/listening-ports':
      return { body: { ports: await listeningPorts() } };
    case 'GET /api/v0/netcheck':
      return { body: networkReport(node) };
    case 'POST /api/v0/list-directory':
      return { body: await listDirectory(await readJson(request), workspace) };
    case 'GET /api/v0/containers':
      await devcontainers.refresh();
      return { body: devcontainers.list() };
  }
  const recreated = request.method === 'POST' ? RECREATE.exec(path)?.[1] : undefined;
  if (recreated === undefined) throw new AppError('not_found', 'Route not found.');
  devcontainers.recreate(recreated);
  return { status: 202, body: { message: `Devcontainer recreation initiated for "${recreated}".` } };
}

/** The containers, now and after each change, as one text message each. */
function upgrade({ devcontainers }: HttpApiOptions, request: IncomingMessage, stream: Duplex, head: Buffer): void {
  if (request.url?.split('?', 1)[0] !== '/api/v0/containers/watch') {
    refuseUpgrade(stream, 404, { message: 'Route not found.' });
    return;
  }
  const connection = acceptWebSocket(request, stream, head);
  const write = () => void connection.sendText(JSON.stringify(devcontainers.list()));
  const stop = devcontainers.onChange(write);
  connection.once('close', stop);
  void devcontainers.refresh().then(write);
}

async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_BODY_BYTES) throw new AppError('invalid', `The request has more than ${MAX_BODY_BYTES} bytes.`);
    chunks.push(chunk);
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // as for other values
  }
  throw new AppError('invalid', 'The request is not a JSON object.');
}

async function listDirectory({ path, relativity }: Record<string, unknown>, { account }: Workspace): Promise<object> {
  const parts = path ?? [];
  if (!Array.isArray(parts) || !parts.every((part) => typeof part === 'string' && !part.includes('\0')))
    throw new AppError('invalid', 'The "path" must be a list of names.');
  if (relativity !== 'root' && relativity !== 'home')
    throw new AppError('invalid', 'The "relativity" must be "root" or "home".');
  const absolute = join(relativity === 'home' ? account.home : sep, ...(parts as string[]));
  const entries = await readdir(absolute, { withFileTypes: true });
  return {
    absolute_path: absolute.split(sep).filter((part) => part !== ''),
    absolute_path_string: absolute,
    contents: entries.map((entry) => ({
      name: entry.name,
      absolute_path_string: join(absolute, entry.name),
      is_dir: entry.isDirectory(),
    })),
  };
}

/** What the agent knows about its network, in the form of upstream's network check. */
function networkReport(node: TailnetNode): object {
  const endpoints = node.status().endpoints;
  const interfaces = describeInterfaces();
  const unknown = { MappingVariesByDestIP: null, HairPinning: null, UPnP: null, PMP: null, PCP: null };
  return {
    ...{ severity: 'ok', warnings: [], dismissed: false },
    net_info: {
      ...unknown,
      WorkingIPv6: endpoints.some((endpoint) => endpoint.startsWith('[')),
      OSHasIPv6: interfaces.some(({ addresses }) => addresses.some((address) => address.includes(':'))),
      WorkingUDP: endpoints.length > 0,
      WorkingICMPv4: false,
      PreferredDERP: node.node?.preferredDerp ?? 0,
      DERPLatency: node.node?.derpLatency ?? {},
    },
    interfaces: { severity: 'ok', warnings: [], dismissed: false, interfaces },
  };
}
