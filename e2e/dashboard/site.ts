import { after, before, type TestContext } from 'node:test';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { firstUser, type ServerProcess, type ServerProcessOptions, startCoderServer } from '../harness.ts';
import { needsBrowser, openAs, startBrowser, type Viewer } from './browser.ts';

export interface Site {
  /** Of a real server, whose first user is signed in as `server.token`. */
  readonly server: ServerProcess;
  readonly browser: Browser;
  /** Opens a page in a separate window, until the end of the test. Default: as the first user. */
  open(t: TestContext, path: string, options?: BrowserContextOptions & { token?: string | undefined }): Promise<Viewer>;
}

/** A server and a browser for the tests of a file. `setUp` runs once, before the first test. */
export function useSite(
  setUp: (server: ServerProcess) => Promise<void> = async () => {},
  { signedUp = true, ...options }: ServerProcessOptions & { signedUp?: boolean } = {},
): Site {
  let server: ServerProcess;
  let browser: Browser;
  before(async () => {
    if (needsBrowser.skip) return;
    [server, browser] = await Promise.all([startCoderServer(options), startBrowser()]);
    if (signedUp) await firstUser(server);
    await setUp(server);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });
  return {
    get server() {
      return server;
    },
    get browser() {
      return browser;
    },
    async open(t, path, given = {}) {
      const { token, ...window } = given;
      const viewer = await openAs(browser, server, 'token' in given ? token : server.token, window);
      t.after(() => viewer.context.close());
      await viewer.page.goto(path);
      return viewer;
    },
  };
}
