// Plans the start and the stop of a workspace for an import.

import { type Persistence, persistence } from '@ropewalk/hcl';
import type { TemplateVariable, VariableValue } from '@ropewalk/wire/proto/provisioner';
import { readPlan, type Snapshot } from '../resources/model.ts';
import type { Env } from '../terraform/env.ts';
import type { Prepared } from '../terraform/prepare.ts';
import type { JobContext } from './context.ts';
import { type Beside, type JobTerraform, type PlanOptions, type ShownPlan, usesPlugins } from './job-terraform.ts';
import { newJobWork, typedVariables } from './preset-warnings.ts';

/** The names of the steps in errors. */
export const START = 'template import provision for start';
export const STOP = 'template import provision for stop';

export interface Planned {
  prepared: Prepared;
  start: ShownPlan;
  stop: Snapshot;
}

/** The values of the root module's variables, and the types that it declares. */
interface Variables {
  values: readonly VariableValue[];
  declared: readonly Pick<TemplateVariable, 'name' | 'type'>[];
}

/**
 * Prepares the template and plans its start. Terraform plans the stop only if the template does not show which resources
 * a stop lacks. If no provider runs as a separate process, the graph and the plans run at the same time. Their log and
 * their errors are those of one after the other.
 */
export async function planTransitions(
  ctx: JobContext,
  terraform: JobTerraform,
  variables: Variables,
  envs: { start: Env; stop: Env },
): Promise<Planned> {
  const plans = new Plans(ctx, terraform, variables, envs);
  try {
    ctx.step = START;
    ctx.shipper.stage('Detecting persistent resources');
    const prepared = await terraform.prepare(envs.start, { beside: () => plans.begin() });
    await plans.begin();
    return { prepared, ...(await plans.finish()) };
  } catch (err) {
    await plans.abandon(err);
    throw err;
  }
}

type Transition = 'start' | 'stop';

/** The plans of one import. Some run before the log has reached them. */
class Plans {
  readonly #ctx: JobContext;
  readonly #terraform: JobTerraform;
  readonly #variables: Variables;
  readonly #envs: { start: Env; stop: Env };
  readonly #graphed = Promise.withResolvers<void>();
  readonly #started = Promise.withResolvers<void>();
  #persistence: Promise<Persistence | undefined> | undefined;
  #early: { start: Promise<void>; stop: Promise<void> | undefined } | undefined;

  constructor(ctx: JobContext, terraform: JobTerraform, variables: Variables, envs: { start: Env; stop: Env }) {
    this.#ctx = ctx;
    this.#terraform = terraform;
    this.#variables = variables;
    this.#envs = envs;
    // without early plans, nobody waits for them
    for (const { promise } of [this.#graphed, this.#started]) promise.catch(() => {});
  }

  /** Begins the plans that may run while the graph is made, once. The template is initialized. */
  async begin(): Promise<Beside | undefined> {
    this.#persistence ??= this.#predict();
    const predicted = (await this.#persistence) !== undefined;
    // Large providers need much memory, and each command starts its own: not more than two commands then.
    if (this.#early || (usesPlugins(this.#ctx.session.templateDir) && !predicted)) return undefined;
    const ends: Promise<void>[] = [];
    const run = (name: Transition, logAfter: Promise<void>, lock: boolean) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      ends.push(promise);
      const plan = this.#plan(name, { logAfter, onEnded: resolve, lock });
      // one that cannot start ends, too
      plan.catch(resolve);
      return plan;
    };
    this.#early = {
      start: run('start', this.#graphed.promise, true),
      // the other plan holds the lock of the state, which neither changes
      stop: predicted ? undefined : run('stop', this.#started.promise, false),
    };
    return { ended: Promise.all(ends), onGraph: () => this.#graphed.resolve() };
  }

  async finish(): Promise<Pick<Planned, 'start' | 'stop'>> {
    const { shipper } = this.#ctx;
    this.#graphed.resolve();
    await (this.#early?.start ?? this.#plan('start'));
    shipper.stage('Detecting ephemeral resources');
    this.#started.resolve();
    const persistence = await this.#persistence;
    // `terraform show` of a saved plan needs no lock, so it runs at the same time as the next plan
    const [start, stop] = await Promise.allSettled([
      this.#show('start'),
      persistence ? undefined : this.#planAndShowStop(),
    ]);
    if (start.status === 'rejected') throw start.reason;
    this.#ctx.step = STOP;
    if (stop.status === 'rejected') throw stop.reason;
    const planned = readPlan(start.value.plan);
    return {
      start: start.value,
      stop: stop.value ?? (persistence && remaining(planned, persistence)) ?? (await this.#planAndShowStop()),
    };
  }

  /** Waits for the end of running commands. Their log does not become part of the job's. */
  async abandon(reason: unknown): Promise<void> {
    this.#graphed.reject(reason);
    this.#started.reject(reason);
    await Promise.allSettled([this.#early?.start, this.#early?.stop]);
  }

  /** Undefined if only Terraform knows what remains at a stop. */
  async #predict(): Promise<Persistence | undefined> {
    const template = await this.#terraform.template();
    if (!template) return undefined;
    const { values, declared } = this.#variables;
    const found = persistence(template, typedVariables(values, declared), newJobWork());
    return 'why' in found ? undefined : found;
  }

  #plan(
    name: Transition,
    { lock = true, ...more }: Pick<PlanOptions, 'logAfter' | 'onEnded'> & { lock?: boolean } = {},
  ): Promise<void> {
    return this.#terraform.plan(name, {
      ...more,
      variables: this.#variables.values,
      args: lock ? [] : ['-lock=false'],
      providerEnv: this.#envs[name],
    });
  }

  #show(name: Transition): Promise<ShownPlan> {
    return this.#terraform.showPlan(name, this.#envs[name]);
  }

  async #planAndShowStop(): Promise<Snapshot> {
    await (this.#early?.stop ?? this.#plan('stop'));
    return readPlan((await this.#show('stop')).plan);
  }
}

/** The instances of a start's plan that a stop has, too. Undefined if the plan has others than the template shows. */
function remaining({ instances }: Snapshot, persistence: Persistence): Snapshot | undefined {
  if (!persistence.agrees(instances.map(({ address }) => address))) return undefined;
  return { instances: instances.filter(({ address }) => persistence.persists(address)) };
}
