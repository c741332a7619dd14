// The client's side of a path through a workspace proxy.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import type { TestContext } from 'node:test';
import type { TestServer } from '@ropewalk/testkit';
import { CLIENT_PATH, type PathNews, PERMIT_HEADER } from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';

export interface PathRequest {
  token: string;
  proxyId: string;
  agentId: string;
  path: string;
}

type Asked = ReturnType<typeof dialWebSocket>;

/** Asks the server for permits. */
export function askPath({ url }: Pick<TestServer, 'url'>, { token, proxyId, agentId, path }: PathRequest): Asked {
  const query = new URLSearchParams({ proxy: proxyId, path });
  return dialWebSocket(`${url}/api/v2/workspaceagents/${agentId}/proxy-path?${query}`, {
    headers: { 'Coder-Session-Token': token },
  });
}

/** The path that the server permits, until the test ends. */
export async function takePath(t: TestContext, asked: Asked) {
  const { connection } = await asked;
  t.after(() => connection.destroy());
  const [text] = await once(connection, 'text');
  return { connection, news: JSON.parse(text as string) as PathNews };
}

/** A stream of pings over a path. */
export async function startPing({ url, permit }: PathNews): Promise<Duplex> {
  const { connection } = await dialWebSocket(`${url}${CLIENT_PATH}`, { headers: { [PERMIT_HEADER]: permit } });
  const bytes = byteStream(connection);
  return requestTunnel({ openStream: () => bytes }, { service: 'ping' });
}

export async function echo(stream: Duplex, text: string): Promise<void> {
  stream.write(text);
  assert.equal(String((await once(stream, 'data'))[0]), text);
}
