// Which of the daemon's engines a job runs. Its template's `required_version` chooses it when the job starts. An import
// learns only from `terraform init` which modules there are. If one of them requires another version of Terraform than
// the job has, the job changes to an engine of this daemon that fits, or goes to another daemon. If Terraform rejects the
// language of a template without such a requirement, the import starts again with the newest engine of this daemon.

import type { VersionRequirement } from '@ropewalk/hcl';
import { AppError, errorText, isAppError } from '@ropewalk/kit';
import { isAtLeast } from '@ropewalk/kit/version';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import { fetchedRequirements, firstAllowed, unmetBy } from '../terraform/requirements.ts';
import { engineName, type TerraformBinary } from '../terraform/version.ts';
import type { JobContext } from './context.ts';

/**
 * What Terraform reports where the language of a later version begins. Since 1.12, `||` and `&&` do not evaluate what
 * they do not need, so conditions of many modules fail before with the argument of a function.
 */
const LANGUAGE =
  /\bInvalid (?:function argument|index|operand)\b|\bAttempt to (?:get attribute from|index) null value\b|\bUnsupported (block type|argument)\b|\bCall to unknown function\b|\bInvalid (reference|character|expression|block definition)\b|\bArgument or block definition required\b|terraform\.io\/builtin\/terraform/;

/**
 * Makes sure that the job's engine is on this machine, and says in the log if it is not the daemon's first.
 * @throws AppError `unavailable` if it cannot be downloaded. An import or a dry run goes to another daemon first, if one
 * has a version that fits.
 */
export async function readyEngine(ctx: JobContext): Promise<void> {
  const { terraform, engines, session, job, shipper } = ctx;
  const [first] = engines.list;
  if (terraform !== first && first && job.type.case !== 'workspaceBuild')
    shipper.say(LogLevel.INFO, `The template excludes ${engineName(first)}. The job uses ${engineName(terraform)}.`);
  try {
    await installed(ctx, terraform);
  } catch (err) {
    ctx.signal.throwIfAborted();
    const { requiredVersion } = session.entry;
    if (requiredVersion) await putBack(ctx, [requiredVersion]);
    throw err;
  }
}

/** Downloads an engine if it is not on this machine. One that cannot be downloaded is not offered any longer. */
async function installed(ctx: JobContext, engine: TerraformBinary): Promise<void> {
  const { engines, signal, log, shipper } = ctx;
  if (!engine.install) return;
  try {
    await engine.install(signal);
  } catch (err) {
    signal.throwIfAborted();
    log.error('cannot download a version of Terraform; not offering it until the next start', {
      engine: engineName(engine),
      reason: errorText(err),
    });
    await shipper.flush();
    await engines.withdraw(engine);
    const advice = `Install it on PATH, or set --terraform-binary to its path.`;
    throw new AppError('unavailable', `${errorText(err)}. ${advice}`, { cause: err });
  }
}

/**
 * Gives a job whose init failed another engine, if a module's constraint excludes the one that it has.
 * @throws the failure of the init if no constraint is the reason, and an AppError `invalid` that names the modules if no
 * engine of this daemon fits.
 */
export async function changeEngine(ctx: JobContext, failure: unknown): Promise<void> {
  const { engines, terraform, session, signal, shipper } = ctx;
  signal.throwIfAborted();
  if (!(failure instanceof AppError)) throw failure;
  const requirements = await fetchedRequirements(session.templateDir, session.entry.user?.uid);
  const unmet = unmetBy(terraform, requirements);
  if (unmet.length === 0) throw failure;
  const constraints = constraintsOf(requirements);
  let why = '';
  for (;;) {
    const other = firstAllowed(engines.list, constraints);
    if (!other) break;
    try {
      await installed(ctx, other);
    } catch (err) {
      signal.throwIfAborted();
      why = ` ${errorText(err)}`;
      continue; // it is no longer in the list
    }
    const text = `${sentence(unmet)} The job continues with ${engineName(other)} instead of ${engineName(terraform)}.`;
    shipper.say(LogLevel.INFO, text);
    // a daemon that adopts the job chooses the same engine
    session.write({ requiredVersion: constraints.join(', ') });
    ctx.terraform = other;
    return;
  }
  const excluding = requirements.filter((one) => engines.list.some((engine) => unmetBy(engine, [one]).length > 0));
  const has = new Intl.ListFormat('en').format(engines.list.map(engineName));
  const text = `${sentence(excluding)} This daemon has ${has}.${why}`;
  shipper.say(LogLevel.WARN, text);
  await shipper.flush();
  await putBack(ctx, constraints);
  throw new AppError('invalid', `initialize terraform: ${text}`, { detail: failure.detail });
}

/**
 * Starts an import again with the newest engine of this daemon, if the job's engine rejects the language of the template.
 * The requirement of that version stays with the template version, so its builds have it, too.
 * @throws always: the failure, which ends the job only if the server does not put it back.
 */
export async function retryWithNewer(ctx: JobContext, failure: unknown): Promise<never> {
  const { engines, terraform, session, shipper } = ctx;
  throwIfAborted(ctx);
  if (!isAppError(failure) || !LANGUAGE.test(`${failure.message}\n${failure.detail ?? ''}`)) throw failure;
  const constraints = constraintsOf(await fetchedRequirements(session.templateDir, session.entry.user?.uid));
  const newer = newest(engines.list.filter((one) => one.engine === terraform.engine));
  if (!newer || isAtLeast(terraform.version, newer.version) || !firstAllowed([newer], constraints)) throw failure;
  const may = `${engineName(terraform)} rejects the template. A later version may support it.`;
  try {
    await installed(ctx, newer);
  } catch (err) {
    throwIfAborted(ctx);
    shipper.say(LogLevel.WARN, `${may} ${errorText(err)}`);
    throw failure;
  }
  shipper.say(LogLevel.WARN, `${may} Trying again with ${engineName(newer)}.`);
  await shipper.flush();
  await putBack(ctx, [...constraints, `>= ${newer.version}`]);
  throw failure;
}

/** The reason of a cancel between two steps has no step's name. */
function throwIfAborted(ctx: JobContext): void {
  if (!ctx.signal.aborted) return;
  ctx.step = '';
  throw ctx.signal.reason;
}

/** Asks the server to give the job to a daemon with a version that these constraints allow. */
async function putBack({ port, log, job }: JobContext, constraints: readonly string[]): Promise<void> {
  await port.requireEngine?.(constraints).catch((err) => {
    // an older server does not support it
    log.warn('cannot put a job back into the queue', { job: job.jobId, reason: errorText(err) });
  });
}

const constraintsOf = (requirements: readonly VersionRequirement[]): string[] => [
  ...new Set(requirements.map(({ constraint }) => constraint)),
];

const newest = (engines: readonly TerraformBinary[]): TerraformBinary | undefined =>
  engines.reduce<TerraformBinary | undefined>(
    (best, one) => (best && isAtLeast(best.version, one.version) ? best : one),
    undefined,
  );

function sentence(unmet: readonly VersionRequirement[]): string {
  const parts = unmet.map(({ module, constraint }) => {
    const who = module === '' ? 'the template' : `module "${module}"`;
    return `${who} requires Terraform ${constraint}`;
  });
  const text = new Intl.ListFormat('en').format(parts);
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
