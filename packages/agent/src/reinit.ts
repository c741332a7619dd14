import { backoff, errorText, type Logger, RECONNECT } from '@ropewalk/kit';
import type { Service } from './services/service.ts';

/** How long the stream may be silent, in ms. The server pings every 15 s. */
const SILENCE_MS = 60_000;
const LONGEST_EVENT = 64 * 1024;

/** `{service: 'reinit'}`: announces that the workspace has a new owner, so that the agent starts over. */
export function reinitService(reinit: (reason: string) => void): Service {
  return ({ request, accept }) => {
    const stream = accept();
    stream.on('error', () => {});
    stream.end();
    stream.resume();
    reinit(String(request['reason'] ?? '').slice(0, 100));
  };
}

export interface ReinitSource {
  url: string;
  token: string;
  headers: Record<string, string>;
  log: Logger;
}

/** Waits for upstream's event that makes the agent start over, across connections that end. Returns its reason. */
export async function awaitReinit({ url, token, headers, log }: ReinitSource, signal: AbortSignal): Promise<string> {
  const waits = backoff({ baseMs: 1_000, ...RECONNECT });
  for (;;) {
    signal.throwIfAborted();
    try {
      const event = await firstEvent(new URL('/api/v2/workspaceagents/me/reinit', url), token, headers, signal);
      if (event) return event;
    } catch (err) {
      signal.throwIfAborted();
      log.debug('could not ask the server for reinitialization', { err: errorText(err) });
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waits.next());
      signal.addEventListener(
        'abort',
        () => {
          clearTimeout(timer);
          resolve();
        },
        { once: true },
      );
    });
  }
}

async function firstEvent(
  url: URL,
  token: string,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const answer = await fetch(url, {
      headers: { ...headers, Cookie: `coder_session_token=${token}` },
      signal: AbortSignal.any([signal, silent.signal]),
    });
    if (!answer.ok || !answer.body) throw new Error(`the server answered with status ${answer.status}`);
    let text = '';
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      text += chunk;
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const data = /^data: ?(.*)$/m.exec(text.slice(0, end))?.[1];
        text = text.slice(end + 2);
        if (data) return String((JSON.parse(data) as { reason?: unknown }).reason ?? '');
      }
      if (text.length > LONGEST_EVENT) throw new Error('the event is too long');
    }
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}
