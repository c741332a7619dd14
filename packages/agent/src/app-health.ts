import { AppHealth, type WorkspaceApp } from '@ropewalk/wire/proto/agent';
import { everyTick } from './metadata.ts';
import { type AgentClient, durationMs } from './wire-types.ts';
import type { Workspace } from './workspace.ts';

const REPORT_MS = 1_000;
/** An app that answers with a status below this is healthy. */
const FIRST_BAD_STATUS = 500;

interface Watched {
  app: WorkspaceApp;
  url: string;
  health: AppHealth;
  failures: number;
  due: number;
  running: boolean;
}

async function answers(url: string, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const response = await fetch(url, { signal: limit, redirect: 'manual' });
    await response.body?.cancel();
    return response.status < FIRST_BAD_STATUS;
  } catch {
    return false;
  }
}

/** Checks apps with a health check at their intervals, and reports all of them when one has changed. */
export async function reportAppHealth(workspace: Workspace, client: AgentClient, signal: AbortSignal): Promise<void> {
  const watched: Watched[] = workspace.manifest.apps.flatMap((app) => {
    const url = app.healthcheck?.url ?? '';
    if (url === '' || durationMs(app.healthcheck?.interval) <= 0) return [];
    return [{ app, url, health: app.health as number as AppHealth, failures: 0, due: 0, running: false }];
  });
  if (watched.length === 0) return;
  let changed = false;
  let reporting = false;
  let failure: unknown;
  const check = async (one: Watched) => {
    const interval = durationMs(one.app.healthcheck!.interval);
    one.running = true;
    one.due = performance.now() + interval;
    const good = await answers(one.url, Math.max(1, interval - 1), signal);
    one.running = false;
    one.failures = good ? 0 : one.failures + 1;
    const before = one.health;
    if (good) one.health = AppHealth.HEALTHY;
    else if (one.failures > one.app.healthcheck!.threshold) one.health = AppHealth.UNHEALTHY;
    if (one.health !== before) changed = true;
  };
  let lastReport = 0;
  await everyTick(signal, REPORT_MS / 4, () => {
    if (failure) throw failure;
    const now = performance.now();
    for (const one of watched) if (!one.running && now >= one.due) void check(one);
    if (!changed || reporting || now - lastReport < REPORT_MS) return;
    changed = false;
    reporting = true;
    lastReport = now;
    const updates = watched.map(({ app, health }) => ({ id: app.id, health }));
    client
      .batchUpdateAppHealths({ updates }, { signal })
      .catch((err) => {
        failure = err;
      })
      .finally(() => {
        reporting = false;
      });
  });
}
