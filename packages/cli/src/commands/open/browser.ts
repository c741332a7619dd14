import { spawn } from 'node:child_process';
import type { Context } from '../../framework/context.ts';

/** A program that cannot open an address fails within this time. */
const GIVE_UP_MS = 3_000;

function opener(env: NodeJS.ProcessEnv): [string, ...string[]] {
  if (env['BROWSER']) return [env['BROWSER']];
  if (process.platform === 'darwin') return ['open'];
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler'];
  return ['xdg-open'];
}

/** Whether this process runs in a workspace, which has no browser. */
export function insideWorkspace(ctx: Context): boolean {
  return ctx.env['CODER'] === 'true';
}

/** Whether the command may open addresses. */
export function mayOpen(ctx: Context): boolean {
  return !ctx.globals['no-open'] && !insideWorkspace(ctx);
}

/** Opens an address with the system's default program. False if that failed, or if it is not allowed. */
export async function openAddress(ctx: Context, address: string): Promise<boolean> {
  if (!mayOpen(ctx)) return false;
  const [file, ...args] = opener(ctx.env);
  const child = spawn(file, [...args, address], { stdio: 'ignore', env: ctx.env, detached: true });
  child.unref();
  let timer: NodeJS.Timeout | undefined;
  const code = await new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(1));
    child.once('close', resolve);
    // a browser that is still running has opened the address
    timer = setTimeout(() => resolve(0), GIVE_UP_MS);
  });
  clearTimeout(timer);
  return code === 0;
}
