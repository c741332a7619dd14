import { spawn } from 'node:child_process';
import type { Context } from '../framework/context.ts';

/** A program that opens an address says soon when it can't. */
const GIVE_UP_MS = 3_000;

function opener(env: NodeJS.ProcessEnv): [string, ...string[]] {
  if (env['BROWSER']) return [env['BROWSER']];
  if (process.platform === 'darwin') return ['open'];
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler'];
  return ['xdg-open'];
}

/** Whether this runs in a workspace, where no browser of the person's is. */
export function insideWorkspace(ctx: Context): boolean {
  return ctx.env['CODER'] === 'true';
}

/** Whether an address may be opened at all. */
export function mayOpen(ctx: Context): boolean {
  return !ctx.globals['no-open'] && !insideWorkspace(ctx);
}

/** Opens an address with what the system has for it; false where that failed, or where it is not wanted. */
export async function openAddress(ctx: Context, address: string): Promise<boolean> {
  if (!mayOpen(ctx)) return false;
  const [file, ...args] = opener(ctx.env);
  const child = spawn(file, [...args, address], { stdio: 'ignore', env: ctx.env, detached: true });
  child.unref();
  let timer: NodeJS.Timeout | undefined;
  const code = await new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('close', resolve);
    // a browser that stays is one that has opened
    timer = setTimeout(() => resolve(0), GIVE_UP_MS);
  });
  clearTimeout(timer);
  return code === 0;
}
