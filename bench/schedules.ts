// The schedules of a large deployment: 10,000 workspaces with a schedule, of which 1,000 are due in the same minute.
import { systemClock } from '@ropewalk/kit';
import { createTestTemplate, eventually, fillWorkspaces, startTestServer } from '@ropewalk/testkit';
import { systemContext } from '../packages/server/src/app/context/context.ts';
import { createBuild } from '../packages/server/src/app/workspace/build/create.ts';
import { lookAtDue, schedulesTask } from '../packages/server/src/background/schedules.ts';
import { freshDatabase } from '../packages/testkit/src/postgres.ts';
import { countStatements } from './count-statements.ts';
import type { Row } from './measure.ts';

const WORKSPACES = 10_000;
const DUE = 1_000;
/** Builds that a person begins, to count their statements. */
const BY_HAND = 50;
const WARM_UP = 6;
const LOOKS = 20;
const REACH_LOOK_MS = 100;
const REACH_STATEMENTS = 1;
const HOUR_MS = 3_600_000;

export async function benchSchedules(): Promise<Row[]> {
  const database = await freshDatabase();
  const counter = await countStatements(database.url);
  const server = await startTestServer({ env: { CODER_PG_CONNECTION_URL: counter.url } });
  try {
    const { services } = server;
    const { sql } = services;
    const template = await createTestTemplate(server, 'base');
    await fillWorkspaces(sql, template.id, WORKSPACES);
    // nothing is due by the server's own clock. The measured looks have their own clock.
    const soon = new Date(Date.now() + 10 * HOUR_MS);
    const later = new Date(Date.now() + 1_000 * HOUR_MS);
    await sql`UPDATE users SET status = 'active'`;
    await sql`UPDATE workspaces SET template_id = ${template.id}, autostart_schedule = 'CRON_TZ=Europe/Berlin 0 9 * * 1-5',
      next_start_at = ${later}`;
    await sql`UPDATE workspaces SET next_start_at = ${soon}, due_at = '-infinity' WHERE id IN (SELECT w.id FROM workspaces w
      JOIN workspace_builds b ON b.id = w.latest_build_id WHERE b.transition = 'stop' LIMIT ${DUE})`;
    await eventually('the first look at every workspace', async () => {
      const [left] = await sql`SELECT 1 FROM workspaces WHERE due_at = '-infinity' LIMIT 1`;
      return left === undefined;
    });
    await sql`VACUUM ANALYZE`;
    const dueClock = { ...systemClock, now: () => new Date(soon.getTime() + 60_000) };
    const ahead = { ...services, clock: dueClock };

    const looks: number[] = [];
    for (let i = -WARM_UP; i < LOOKS; i++) {
      // every second look finds workspaces that changed and have nothing to do, whose next times it stores
      if (i % 2) {
        await sql`UPDATE workspaces SET due_at = '-infinity' WHERE id IN (
          SELECT id FROM workspaces WHERE next_start_at = ${later} LIMIT ${DUE})`;
      }
      const started = performance.now();
      await lookAtDue(ahead);
      if (i >= 0) looks.push(performance.now() - started);
    }
    const slowest = Math.max(...looks);

    const byHand = await sql<{ id: string }[]>`SELECT w.id FROM workspaces w
      JOIN workspace_builds b ON b.id = w.latest_build_id WHERE b.transition = 'stop' AND w.next_start_at = ${later} LIMIT ${BY_HAND}`;
    const ctx = systemContext(services, 'bench');
    let before = counter.count();
    for (const { id } of byHand) await createBuild(ctx, id, { transition: 'start' });
    const own = (counter.count() - before) / BY_HAND;

    before = counter.count();
    const started = performance.now();
    const task = schedulesTask(ahead);
    const begun = async () =>
      (await sql<{ count: number }[]>`SELECT count(*) FROM workspace_builds WHERE reason = 'autostart'`)[0]!.count;
    let checks = 0;
    do {
      await task.run(AbortSignal.timeout(60_000));
      checks++;
    } while ((await begun()) < DUE);
    const took = performance.now() - started;
    const automatic = (counter.count() - before - checks) / DUE;
    return [
      {
        what: `looking for due workspaces, ${DUE} of ${WORKSPACES} are due (slowest of ${LOOKS})`,
        ours: `${slowest.toFixed(0)} ms`,
        floor: '–',
        figure: `${slowest.toFixed(0)} ms`,
        reach: `≤ ${REACH_LOOK_MS} ms`,
        met: slowest <= REACH_LOOK_MS,
      },
      {
        what: `statements of an automatic build, compared with a person's, which also reads its result (${DUE} builds began in ${(took / 1_000).toFixed(1)} s)`,
        ours: automatic.toFixed(1),
        floor: own.toFixed(1),
        figure: (automatic - own).toFixed(1),
        reach: `≤ ${REACH_STATEMENTS}`,
        met: automatic - own <= REACH_STATEMENTS,
      },
    ];
  } finally {
    await server.stop();
    counter.close();
    await database.drop();
  }
}
