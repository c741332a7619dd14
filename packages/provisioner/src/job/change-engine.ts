// An import learns only from `terraform init` which modules there are. If one of them requires another version of
// Terraform than the job has, the job changes to an engine of this daemon that fits, or goes to another daemon.

import type { VersionRequirement } from '@platform/hcl';
import { AppError, errorText } from '@platform/kit';
import { LogLevel } from '@platform/wire/proto/provisioner';
import { fetchedRequirements, firstAllowed, unmetBy } from '../terraform/requirements.ts';
import type { TerraformBinary } from '../terraform/version.ts';
import type { JobContext } from './context.ts';
import type { LogShipper } from './log-shipper.ts';

/**
 * Gives a job whose init failed another engine, if a module's constraint excludes the one that it has.
 * @throws the failure of the init if no constraint is the reason, and an AppError `invalid` that names the modules if no
 * engine of this daemon fits.
 */
export async function changeEngine(ctx: JobContext, shipper: LogShipper, failure: unknown): Promise<void> {
  const { engines, terraform, session, signal, port, log } = ctx;
  signal.throwIfAborted();
  if (!(failure instanceof AppError)) throw failure;
  const requirements = await fetchedRequirements(session.templateDir, session.entry.user?.uid);
  const unmet = unmetBy(terraform, requirements);
  if (unmet.length === 0) throw failure;
  const constraints = [...new Set(requirements.map(({ constraint }) => constraint))];
  const other = firstAllowed(engines, constraints);
  if (other) {
    const text = `${sentence(unmet)} The job continues with ${nameOf(other)} instead of ${nameOf(terraform)}.`;
    shipper.say(LogLevel.INFO, text);
    // a daemon that adopts the job chooses the same engine
    session.write({ requiredVersion: constraints.join(', ') });
    ctx.terraform = other;
    return;
  }
  const excluding = requirements.filter((one) => engines.some((engine) => unmetBy(engine, [one]).length > 0));
  const has = new Intl.ListFormat('en').format(engines.map(nameOf));
  const text = `${sentence(excluding)} This daemon has ${has}.`;
  shipper.say(LogLevel.WARN, text);
  await shipper.flush();
  await port.requireEngine?.(constraints).catch((err) => {
    // an older server does not support it
    log.warn('cannot put a job back into the queue', { job: ctx.job.jobId, reason: errorText(err) });
  });
  throw new AppError('invalid', `initialize terraform: ${text}`, { detail: failure.detail });
}

const nameOf = ({ engine, version }: TerraformBinary): string => `${engine} ${version}`;

function sentence(unmet: readonly VersionRequirement[]): string {
  const parts = unmet.map(({ module, constraint }) => {
    const who = module === '' ? 'the template' : `module "${module}"`;
    return `${who} requires Terraform ${constraint}`;
  });
  const text = new Intl.ListFormat('en').format(parts);
  return `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}
