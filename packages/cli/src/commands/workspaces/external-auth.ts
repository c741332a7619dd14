import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@ropewalk/client';
import type { Context } from '../../framework/context.ts';
import { note } from '../../framework/io.ts';

const POLL_MS = 1_000;

/**
 * Waits until the person has connected the accounts that a template version requires, and shows where to do it. Without
 * a terminal it does not wait: the server then rejects the workspace with the same link.
 */
export async function connectAccounts(ctx: Context, client: Client, versionId: string): Promise<void> {
  if (!ctx.interactive) return;
  const read = () =>
    client.call('GET /templateversions/{templateversion}/external-auth', { params: { templateversion: versionId } });
  for (const { id, display_name: name, authenticate_url: url, ...account } of await read()) {
    if (account.authenticated || account.optional) continue;
    note(ctx.io, `The template requires your ${name} account. Connect it here:\n\n\t${url}\n`);
    while (!(await read()).some((one) => one.id === id && one.authenticated)) {
      await delay(POLL_MS, undefined, { signal: ctx.signal });
    }
    note(ctx.io, `Your ${name} account is connected.`);
  }
}
