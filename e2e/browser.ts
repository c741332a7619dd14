import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '@platform/testkit/wait';
import { dialWebSocket, type WebSocketConnection } from '@platform/wire/websocket';

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const CALL_MS = 15_000;

interface Message {
  id?: number;
  sessionId?: string;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: { message: string };
}

/** A tab. */
export interface Page {
  goto(url: string): Promise<void>;
  /** Evaluates an expression in the page. Waits for a promise. */
  evaluate<T>(expression: string): Promise<T>;
  /** Types text with a key press for each character. `\r` is Enter. */
  type(text: string): Promise<void>;
  /** Polls an expression until it is true. */
  until(what: string, expression: string, timeoutMs?: number): Promise<void>;
  /** Calls a command of the DevTools protocol on this tab. */
  call<T = unknown>(method: string, params?: object): Promise<T>;
  /** Takes a screenshot as PNG. */
  screenshot(): Promise<Buffer>;
  /** The messages of its console and the errors so far. */
  readonly console: string[];
  close(): Promise<void>;
}

export interface Browser {
  /** Opens a tab with its own cookies. */
  page(): Promise<Page>;
  close(): Promise<void>;
}

export const chromium = (): string | undefined => CHROMIUM.find((path) => existsSync(path));

/**
 * Starts Chromium and controls it with its DevTools protocol. `args` are additional flags, such as
 * --host-resolver-rules.
 */
export async function startBrowser(args: string[] = []): Promise<Browser> {
  const file = chromium();
  if (!file) throw new Error(`Chromium is not installed: install it at one of ${CHROMIUM.join(', ')}`);
  const dir = mkdtempSync(join(tmpdir(), 'platform-browser-'));
  const child: ChildProcess = spawn(
    file,
    [
      '--headless=new',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--no-first-run',
      '--disable-background-networking',
      '--remote-debugging-port=0',
      `--user-data-dir=${dir}`,
      ...args,
      'about:blank',
    ],
    { stdio: 'ignore', detached: true },
  );
  const port = join(dir, 'DevToolsActivePort');
  const [number, path] = await eventually('the browser listens', async () => {
    const lines = existsSync(port) ? readFileSync(port, 'utf8').split('\n') : [];
    return lines.length >= 2 && lines;
  });
  const { connection } = await dialWebSocket(`ws://127.0.0.1:${number}${path}`, {
    maxMessageBytes: 64 * 1024 * 1024,
  } as never);
  const protocol = speak(connection);
  return {
    page: () => openPage(protocol),
    async close() {
      connection.close(1000);
      const gone = new Promise((resolve) => child.once('exit', resolve));
      // its helpers are in its process group
      process.kill(-child.pid!, 'SIGKILL');
      await gone;
      rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    },
  };
}

interface Protocol {
  call<T>(method: string, params?: object, sessionId?: string): Promise<T>;
  onEvent(listener: (message: Message) => void): void;
}

function speak(connection: WebSocketConnection): Protocol {
  let last = 0;
  const waiting = new Map<number, (message: Message) => void>();
  const listeners: ((message: Message) => void)[] = [];
  connection.on('text', (text) => {
    const message = JSON.parse(text) as Message;
    if (message.id !== undefined) waiting.get(message.id)?.(message);
    else for (const listener of listeners) listener(message);
  });
  return {
    call<T>(method: string, params: object = {}, sessionId?: string) {
      const id = ++last;
      return new Promise<T>((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(id);
          reject(new Error(`the browser does not answer ${method}`));
        }, CALL_MS);
        waiting.set(id, ({ result, error }) => {
          clearTimeout(timer);
          waiting.delete(id);
          if (error) reject(new Error(`${method}: ${error.message}`));
          else resolve(result as T);
        });
        connection.sendText(JSON.stringify({ id, method, params, ...(sessionId ? { sessionId } : {}) }));
      });
    },
    onEvent: (listener) => listeners.push(listener),
  };
}

async function openPage(protocol: Protocol): Promise<Page> {
  const { browserContextId } = await protocol.call<{ browserContextId: string }>('Target.createBrowserContext');
  const { targetId } = await protocol.call<{ targetId: string }>('Target.createTarget', {
    url: 'about:blank',
    browserContextId,
  });
  const { sessionId } = await protocol.call<{ sessionId: string }>('Target.attachToTarget', {
    targetId,
    flatten: true,
  });
  const call = <T>(method: string, params: object = {}) => protocol.call<T>(method, params, sessionId);
  const seen: string[] = [];
  protocol.onEvent(({ sessionId: of, method, params }) => {
    if (of === sessionId && /^(Runtime\.(consoleAPICalled|exceptionThrown)|Log\.entryAdded)$/.test(method ?? '')) {
      seen.push(JSON.stringify(params));
    }
  });
  await Promise.all(['Page.enable', 'Runtime.enable', 'Log.enable'].map((method) => call(method)));
  const page: Page = {
    call,
    console: seen,
    async goto(url) {
      const { errorText } = await call<{ errorText?: string }>('Page.navigate', { url });
      if (errorText) throw new Error(`${url}: ${errorText}`);
      await page.until('the page is loaded', `document.readyState === 'complete' && location.href !== 'about:blank'`);
    },
    async evaluate<T>(expression: string) {
      const { result, exceptionDetails } = await call<{
        result: { value: T };
        exceptionDetails?: { text: string; exception?: { description?: string } };
      }>('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true, userGesture: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    async type(text) {
      for (const character of text) {
        const enter = character === '\r';
        const key = enter ? { key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13 } : { key: character };
        await call('Input.dispatchKeyEvent', { type: 'keyDown', text: character, ...key });
        await call('Input.dispatchKeyEvent', { type: 'keyUp', ...key });
      }
    },
    async until(what, expression, timeoutMs) {
      await eventually(
        what,
        // between two pages no expression can be evaluated
        () => page.evaluate<boolean>(expression).catch(() => false),
        timeoutMs,
      ).catch((err) => {
        throw new Error(`${(err as Error).message}; console: ${seen.slice(-10).join('\n')}`);
      });
    },
    async screenshot() {
      const { data } = await call<{ data: string }>('Page.captureScreenshot', { format: 'png' });
      return Buffer.from(data, 'base64');
    },
    async close() {
      await protocol.call('Target.disposeBrowserContext', { browserContextId });
    },
  };
  return page;
}
