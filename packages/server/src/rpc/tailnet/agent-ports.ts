// What this server asks agents for, by the ports that upstream's agents have in the tailnet. Source of ports, routes and shapes: upstream's answers, recorded
// by the team.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type Duplex, PassThrough } from 'node:stream';
import { AppError, type ErrorCode } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { TunnelRequest } from '@ropewalk/wire/tunnel';
import { uuidText } from '@ropewalk/wire/uuid';
import { dialWebSocket } from '@ropewalk/wire/websocket';

const TERMINAL_PORT = 2;
const API_PORT = 4;
const API_HOST = 'agent';
const API = '/api/v0';
const MAX_BODY_BYTES = 1024 * 1024;
const MAX_TEXT = 1_000;
const ANSWER_MS = 30_000;
const OK = 200;
const ACCEPTED = 202;
const NO_CONTENT = 204;
const CODES: Partial<Record<string, ErrorCode>> = { 400: 'invalid', 404: 'not_found', 409: 'conflict' };

/** Opens a TCP connection to a port of the agent in the tailnet. */
export type Connect = (port: number, signal?: AbortSignal) => Promise<Duplex>;

/**
 * Opens a service of the agent as its tunnel would be. The stream has the same bytes.
 * @throws AppError `unsupported` for services that upstream's agents do not have, `unavailable` if the agent does not
 * answer
 */
export async function openService(connect: Connect, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex> {
  switch (request.service) {
    case 'tcp':
      return connect(Number(request['port']), signal);
    case 'pty':
      return openTerminal(connect, request, signal);
    case 'ports':
      return lineOf(await askApi(connect, 'GET', '/listening-ports', signal));
    case 'containers':
      return request['watch'] === true
        ? watchContainers(connect, signal)
        : lineOf(await askApi(connect, 'GET', '/containers', signal));
    case 'devcontainer':
      return lineOf(await changeDevcontainer(connect, request, signal));
    default:
      throw new AppError('unsupported', `The agent of this workspace has no service ${request.service} here.`);
  }
}

/** Both ends exchange JSON objects and the terminal's bytes, after the length of a request and the request. */
async function openTerminal(connect: Connect, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex> {
  const { id, user, command = '', width = 80, height = 24 } = request;
  const json = Buffer.from(
    JSON.stringify({
      ...{ ID: terminalId(String(user), String(id)), Height: height, Width: width, Command: command },
      ...{ Container: '', ContainerUser: '', BackendType: '' },
    }),
  );
  if (json.length > 0xffff) throw new AppError('invalid', 'The command of the terminal is too long.');
  const stream = await connect(TERMINAL_PORT, signal);
  const length = Buffer.alloc(2);
  length.writeUInt16LE(json.length);
  stream.write(Buffer.concat([length, json]));
  return stream;
}

/** Upstream's agents let everybody who knows a terminal's id attach to it. This one differs for each person. */
function terminalId(user: string, id: string): string {
  return uuidText(createHash('sha256').update(`${user} ${id.toLowerCase()}`).digest().subarray(0, 16));
}

/** Sends a request to the agent's HTTP API. Returns the body of its answer. */
async function askApi(connect: Connect, method: string, path: string, signal?: AbortSignal): Promise<string> {
  const limit = AbortSignal.timeout(ANSWER_MS);
  const until = signal ? AbortSignal.any([signal, limit]) : limit;
  const [{ request }, stream] = await Promise.all([import('node:http'), connect(API_PORT, until)]);
  stream.on('error', () => {});
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { host: API_HOST, method, path: `${API}${path}`, signal: until, createConnection: () => stream };
      request(options, resolve).once('error', reject).end();
    });
    const body = await readBody(answer);
    const status = answer.statusCode ?? 0;
    if (![OK, ACCEPTED, NO_CONTENT].includes(status)) throw rejection(status, body);
    return body;
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof AppError) throw cause;
    throw new AppError('unavailable', 'The agent of this workspace does not answer.', { cause });
  } finally {
    stream.destroy();
  }
}

async function readBody(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw new Error(`the answer has more than ${MAX_BODY_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** The agent's answer as an error. Its text comes from a workspace. */
function rejection(status: number, body: string): AppError {
  const code = ownValue(CODES, String(status)) ?? 'unavailable';
  try {
    const { message, detail } = JSON.parse(body) as { message?: unknown; detail?: unknown };
    if (typeof message === 'string' && message !== '') {
      const more = typeof detail === 'string' && detail !== '' ? { detail: detail.slice(0, MAX_TEXT) } : {};
      return new AppError(code, message.slice(0, MAX_TEXT), more);
    }
  } catch {
    // not upstream's form of an error
  }
  return new AppError(code, `The agent of this workspace answered with status ${status}.`);
}

/** A stream of one line of JSON. */
function lineOf(json: string): Duplex {
  const stream = new PassThrough();
  stream.end(`${oneLine(json)}\n`);
  return stream;
}

function oneLine(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json));
  } catch (cause) {
    throw new AppError('unavailable', 'The answer of the agent is not JSON.', { cause });
  }
}

/** A line of JSON now, and after each change. */
async function watchContainers(connect: Connect, signal?: AbortSignal): Promise<Duplex> {
  const inside = await connect(API_PORT, signal);
  const { connection } = await dialWebSocket(`http://${API_HOST}${API}/containers/watch`, {
    ...{ stream: inside, timeoutMs: ANSWER_MS, maxMessageBytes: MAX_BODY_BYTES },
    ...(signal ? { signal } : {}),
  }).catch((cause) => {
    inside.destroy();
    signal?.throwIfAborted();
    throw new AppError('unavailable', 'The agent of this workspace does not report its containers.', { cause });
  });
  const stream = new PassThrough();
  // a reader that lags behind gets the newest list once it has read the last
  let waiting: string | undefined;
  const send = (line: string) => {
    if (stream.writableNeedDrain) waiting = line;
    else stream.write(line);
  };
  stream.on('drain', () => {
    if (waiting === undefined) return;
    stream.write(waiting);
    waiting = undefined;
  });
  connection.on('text', (message) => {
    try {
      send(`${oneLine(message)}\n`);
    } catch {
      connection.destroy();
    }
  });
  connection.once('close', () => stream.end());
  stream.once('close', () => connection.destroy());
  return stream;
}

/** The outcome of a change: `{}`, or the code and message of an error. */
async function changeDevcontainer(connect: Connect, request: TunnelRequest, signal?: AbortSignal): Promise<string> {
  const path = `/containers/devcontainers/${encodeURIComponent(String(request['id']))}`;
  try {
    if (request['action'] === 'recreate') await askApi(connect, 'POST', `${path}/recreate`, signal);
    else await askApi(connect, 'DELETE', path, signal);
    return '{}';
  } catch (err) {
    if (!(err instanceof AppError)) throw err;
    return JSON.stringify({ code: err.code, message: err.message });
  }
}
