import { Counter, Gauge, type Registry } from 'prom-client';
import type { Services } from '../app/context/context.ts';
import { decidePool, phaseOf } from '../app/prebuild/decide.ts';
import { lookbackFrom, poolRules } from '../app/prebuild/reconcile.ts';
import { arePoolsPaused } from '../app/prebuild/settings.ts';
import { pools, poolTotals, prebuilds } from '../db/queries/prebuilds.ts';
import type { DatabaseGauges } from './gauges.ts';

const LABELS = ['template_name', 'preset_name', 'organization_name'] as const;
const PREFIX = 'coderd_prebuilt_workspaces_';

/** Metrics of the pools of prebuilt workspaces, by preset. All come from the database: each server reports the same. */
export function createPrebuildGauges(services: Services, registry: Registry): DatabaseGauges {
  const registers = [registry];
  const counter = (name: string, help: string) =>
    new Counter({ name: PREFIX + name, help, labelNames: LABELS, registers });
  const gauge = (name: string, help: string) => new Gauge({ name: PREFIX + name, help, labelNames: LABELS, registers });
  const created = counter('created_total', 'The number of workspaces that were created for pools.');
  const failed = counter('failed_total', 'The number of workspaces of pools whose first build failed.');
  const claimed = counter('claimed_total', 'The number of workspaces of pools that people have claimed.');
  const desired = gauge('desired', 'The number of workspaces that the pool should have now.');
  const running = gauge('running', 'The number of unclaimed workspaces that run.');
  const eligible = gauge('eligible', 'The number of unclaimed workspaces that a person can claim now.');
  const limited = gauge(
    'preset_hard_limited',
    '1 if too many builds failed, so that the pool gets no more workspaces.',
  );
  const invalid = gauge(
    'preset_validation_failed',
    '1 if the pool gets no workspaces because the values of the preset or the tags of the template are invalid.',
  );
  const paused = new Gauge({
    name: `${PREFIX}reconciliation_paused`,
    help: '1 while the pools are paused.',
    registers,
  });
  const updated = new Gauge({
    name: `${PREFIX}metrics_last_updated`,
    help: 'When these metrics were read, in seconds since 1970.',
    registers,
  });
  const all = [created, failed, claimed, desired, running, eligible, limited, invalid];
  const forget = () => {
    for (const one of all) one.reset();
  };
  return {
    forget,
    async read(sql) {
      const totals = await poolTotals(sql);
      const known = await pools(sql, lookbackFrom(services));
      const byPreset = Map.groupBy(await prebuilds(sql), (one) => one.preset_id);
      const isPaused = await arePoolsPaused(services);
      const now = services.clock.now();
      forget();
      for (const { created: count, failed: failures, claimed: claims, ...labels } of totals) {
        created.inc(labels, count);
        failed.inc(labels, failures);
        claimed.inc(labels, claims);
      }
      for (const pool of known) {
        const { template_name, name: preset_name, organization_name } = pool;
        const labels = { template_name, preset_name, organization_name };
        const workspaces = byPreset.get(pool.id) ?? [];
        const decision = decidePool(pool, workspaces, poolRules(services), now);
        desired.inc(labels, decision.desired);
        running.inc(labels, workspaces.filter((one) => phaseOf(one) === 'running').length);
        eligible.inc(labels, workspaces.filter(({ ready }) => ready).length);
        invalid.inc(labels, pool.invalid && pool.is_current ? 1 : 0);
        limited.inc(labels, decision.limited && pool.is_current ? 1 : 0);
      }
      paused.set(isPaused ? 1 : 0);
      updated.set(now.getTime() / 1_000);
    },
  };
}
