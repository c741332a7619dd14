// How long a person waits for a workspace of a pool: from the request to an agent that is ready for its new owner.
import { createWorkspace, ensureExecutable, firstUser, startCoderServer } from '../e2e/harness.ts';
import { isReady, localPool, makePool, poolIsReady } from '../e2e/pool.ts';
import { median, type Row } from './measure.ts';

const CLAIMS = 5;
const REACH_MS = 1_000;

export async function benchPrebuilds(): Promise<Row[]> {
  await ensureExecutable();
  const server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '1' } });
  try {
    await firstUser(server);
    const pool = await makePool(server, 'pool', localPool(CLAIMS));
    await poolIsReady(server, CLAIMS);
    // the pool is not filled again meanwhile
    await server.api('PUT', '/prebuilds/settings', { reconciliation_paused: true });
    const claims: number[] = [];
    for (let i = 0; i < CLAIMS; i++) {
      const started = performance.now();
      const extra = { template_version_preset_id: pool.presetId };
      const { id } = await createWorkspace(server, pool.templateId, `claimed-${i}`, extra);
      await isReady(server, id);
      claims.push(performance.now() - started);
    }
    const usual = performance.now();
    const { id } = await createWorkspace(server, pool.templateId, 'usual');
    await isReady(server, id);
    const without = performance.now() - usual;
    const measured = median(claims);
    return [
      {
        what: `claim of a prebuilt workspace → agent ready for its owner (median of ${CLAIMS}; without a pool)`,
        floor: `${without.toFixed(0)} ms`,
        ours: `${measured.toFixed(0)} ms`,
        figure: `${measured.toFixed(0)} ms`,
        reach: `≤ ${REACH_MS} ms`,
        met: measured <= REACH_MS,
      },
    ];
  } finally {
    await server.stop();
  }
}
