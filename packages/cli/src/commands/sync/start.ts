import { systemClock } from '@ropewalk/kit/clock';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';

/** How often to ask whether the unit is ready, in ms. The socket's protocol has no notification. */
const POLL_MS = 200;

const flags = {
  timeout: {
    type: 'duration',
    default: '5m',
    description: 'Time limit for the wait, such as 30s or 5m. 0: no limit.',
  },
  ...socketFlags,
} as const;

export default command(
  { args: { unit: {} }, flags, help: 'Waits until all its dependencies are completed, then marks it as started.' },
  async (ctx, { args: { unit }, flags: given }) => {
    const path = given['socket-path'];
    const name = JSON.stringify(unit);
    const { isReady, dependencies } = await callAgent(path, (agent) => agent.syncStatus({ unit }));
    const list = (names: { dependsOn: string }[]) =>
      `[${names
        .map(({ dependsOn }) => dependsOn)
        .sort()
        .join(', ')}]`;
    const missing = dependencies.filter(({ isSatisfied }) => !isSatisfied);
    if (!isReady) {
      print(ctx.io, `Unit ${name} is waiting for dependencies to be satisfied: ${list(missing)}`);
      const until = given.timeout > 0 ? performance.now() + given.timeout : Number.POSITIVE_INFINITY;
      while (!(await callAgent(path, (agent) => agent.syncReady({ unit }))).ready) {
        if (performance.now() > until) {
          const { dependencies: now } = await callAgent(path, (agent) => agent.syncStatus({ unit }));
          const left = list(now.filter(({ isSatisfied }) => !isSatisfied));
          throw new AppError('timeout', `timeout waiting for dependencies of unit ${name}: ${left}`);
        }
        await systemClock.sleep(POLL_MS, ctx.signal);
      }
    }
    await callAgent(path, (agent) => agent.syncStart({ unit }));
    if (dependencies.length === 0) print(ctx.io, `Unit ${name} started with no dependencies`);
    else if (missing.length > 0) print(ctx.io, `Unit ${name} finished waiting for dependencies: ${list(missing)}`);
    else print(ctx.io, `Unit ${name} started immediately, dependencies already satisfied: ${list(dependencies)}`);
  },
);
