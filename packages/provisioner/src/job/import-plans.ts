import type { VariableValue } from '@ropewalk/wire/proto/provisioner';
import type { Env } from '../terraform/env.ts';
import type { Prepared } from '../terraform/prepare.ts';
import { prefixed } from './prefixed.ts';
import type { Stages } from './stages.ts';
import { type Beside, type CommandOptions, planFile, type ShownPlan, variableArgs } from './terraform.ts';
import { usesPlugins } from './uses-plugins.ts';

const START = 'template import provision for start';
const STOP = 'template import provision for stop';

export interface Planned {
  prepared: Prepared;
  start: ShownPlan;
  stop: ShownPlan;
}

/**
 * Prepares the template and plans its start and its stop. If no provider runs as a separate process, the graph and
 * both plans run at the same time. Their log and their errors are those of one after the other.
 */
export async function planTransitions(
  { ctx, shipper, terraform }: Stages,
  values: VariableValue[],
  envs: { start: Env; stop: Env },
): Promise<Planned> {
  const variables = variableArgs(values);
  const plan = (
    name: 'start' | 'stop',
    { lock = true, ...more }: Pick<CommandOptions, 'logAfter' | 'onEnded'> & { lock?: boolean } = {},
  ) =>
    terraform.run(
      'plan',
      [
        ...['-no-color', '-input=false', '-json', '-refresh=true', `-out=${planFile(name)}`],
        ...(lock ? [] : ['-lock=false']),
        ...variables.args,
      ],
      { stage: 'plan', providerEnv: envs[name], env: variables.env, ...more },
    );
  const graphed = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  // without early plans, nobody waits for them
  for (const { promise } of [graphed, started]) promise.catch(() => {});
  let early: { start: Promise<void>; stop: Promise<void> } | undefined;
  const beside = async (): Promise<Beside | undefined> => {
    // large providers need much memory, and each command starts its own
    if (early || usesPlugins(ctx.session.templateDir)) return undefined;
    const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const onEnded = ends.map(({ resolve }) => resolve);
    early = {
      start: plan('start', { logAfter: graphed.promise, onEnded: onEnded[0] }),
      // the other plan holds the lock of the state, which neither changes
      stop: plan('stop', { logAfter: started.promise, onEnded: onEnded[1], lock: false }),
    };
    // one that cannot start ends, too
    early.start.catch(onEnded[0]);
    early.stop.catch(onEnded[1]);
    return { ended: Promise.all(ends.map(({ promise }) => promise)) };
  };
  const show = (name: 'start' | 'stop') => terraform.showPlan(planFile(name), envs[name]);
  try {
    shipper.stage('Detecting persistent resources');
    const prepared = await prefixed(START, async () => {
      const done = await terraform.prepare(envs.start, { beside });
      await beside();
      graphed.resolve();
      await (early?.start ?? plan('start'));
      return done;
    });
    shipper.stage('Detecting ephemeral resources');
    started.resolve();
    // `terraform show` of a saved plan needs no lock, so it runs at the same time as the next plan
    const [start, stop] = await Promise.allSettled([
      prefixed(START, () => show('start')),
      prefixed(STOP, async () => {
        await (early?.stop ?? plan('stop'));
        return show('stop');
      }),
    ]);
    if (start.status === 'rejected') throw start.reason;
    if (stop.status === 'rejected') throw stop.reason;
    return { prepared, start: start.value, stop: stop.value };
  } catch (err) {
    graphed.reject(err);
    started.reject(err);
    await Promise.allSettled([early?.start, early?.stop]);
    throw err;
  }
}
