import { tmpdir } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { errorText } from '@ropewalk/kit';
import type { Timing } from '@ropewalk/wire/proto/provisioner';
import {
  type AcquiredJob,
  type FailedJob,
  FailedJob_TemplateDryRunSchema,
  FailedJob_TemplateImportSchema,
  FailedJob_WorkspaceBuildSchema,
  FailedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import { BuildFailure, runBuild } from './build.ts';
import { readyEngine } from './change-engine.ts';
import type { JobContext } from './context.ts';
import { runDryRun } from './dry-run.ts';
import { runImport } from './import.ts';
import type { Ending, Verdict } from './job-port.ts';
import { JobTerraform } from './job-terraform.ts';
import { LogShipper } from './log-shipper.ts';

/**
 * Runs a job from the beginning, or continues it if the journal says that terraform already works. It always returns a
 * verdict, with the end of the log. It rejects only if this daemon no longer owns the job.
 */
export async function runJob(given: Omit<JobContext, 'shipper' | 'step'>): Promise<Ending> {
  let stage: { name: string; since: number } | undefined;
  const timed = (name?: string) => {
    const now = performance.now();
    if (stage) given.metrics?.stageEnded(stage.name, (now - stage.since) / 1_000);
    stage = name === undefined ? undefined : { name, since: now };
  };
  const { deaths, phase, run } = given.session.entry;
  const shipper: LogShipper = new LogShipper(
    given.port,
    { delivered: (mark) => terraform.noteDelivered(mark), stage: timed },
    { attempt: deaths, ...(phase === 'apply' ? { own: run?.lines, unsent: run?.unsent } : {}) },
  );
  const fresh = phase === 'start';
  if (fresh) shipper.stage('Setting up');
  // Until the server receives this line, it may give the job to another daemon. So no program starts before, and only
  // the session's folder is filled.
  const confirmed = fresh ? shipper.flush() : Promise.resolve();
  confirmed.catch(() => {});
  const ctx: JobContext = { ...given, shipper, step: '' };
  const terraform = new JobTerraform(ctx, confirmed);
  let verdict: Verdict;
  try {
    // an import reads the template in this process
    if (ctx.job.type.case !== 'workspaceBuild') {
      if (fresh) await ctx.session.unpack(ctx.job.templateSourceArchive);
      await confirmed;
    }
    if (fresh && ctx.terraform.install) await confirmed;
    if (fresh) await readyEngine(ctx);
    verdict = await dispatch(ctx, terraform).finally(() => terraform.close());
  } catch (err) {
    ctx.log.info('job failed', { job: ctx.job.jobId, reason: reasonOf(ctx, err).split('\n')[0] });
    const full = await ctx.diskPause.beginIfFull(err, [ctx.session.dir, ctx.cacheDir, tmpdir()]);
    verdict = { kind: 'fail', job: failedJob(ctx, err, full) };
  }
  shipper.stage('Cleaning Up');
  await confirmed;
  const rest = await shipper.end();
  timed();
  return { verdict, rest };
}

async function dispatch(ctx: JobContext, terraform: JobTerraform): Promise<Verdict> {
  const { type, provisioner } = ctx.job;
  if (provisioner !== 'terraform' && provisioner !== '')
    throw new Error(`failed to connect to provisioner: missing provisioner type ${JSON.stringify(provisioner)}`);
  switch (type.case) {
    case 'templateImport':
      return { kind: 'complete', job: await runImport(ctx, terraform, type.value) };
    case 'templateDryRun':
      return { kind: 'complete', job: await runDryRun(ctx, terraform, type.value) };
    case 'workspaceBuild':
      return { kind: 'complete', job: await runBuild(ctx, terraform, type.value) };
    case undefined:
      throw new Error('this daemon does not support the type of the job: update the daemon');
  }
}

/** The server derives the code from the same phrases. */
export function errorCode(text: string): string {
  if (text.includes('missing parameter')) return 'MISSING_TEMPLATE_PARAMETER';
  if (text.includes('required template variables')) return 'REQUIRED_TEMPLATE_VARIABLES';
  return '';
}

/**
 * The reason for a cancel by a daemon that shuts down. The job's error says so, because the server did not cancel it.
 */
export const SHUTTING_DOWN = 'The provisioner daemon is shutting down.';

/** The text of an error, after the name of the step that failed. */
const reasonOf = ({ step }: JobContext, err: unknown): string =>
  step === '' ? errorText(err) : `${step}: ${errorText(err)}`;

function failedJob(ctx: JobContext, err: unknown, full: string | undefined): FailedJob {
  const reason = reasonOf(ctx, err);
  let text = ctx.signal.aborted && !(err instanceof BuildFailure) ? `canceled: ${reason}` : reason;
  if (ctx.signal.aborted && errorText(ctx.signal.reason) === SHUTTING_DOWN && !text.includes(SHUTTING_DOWN))
    text = `${text}\n${SHUTTING_DOWN} It canceled this job.`;
  if (full !== undefined)
    text = `${text}\nNo space left on device: the disk of ${full} on the machine of the provisioner daemon is full.`;
  return failure(ctx.job, text, err instanceof BuildFailure ? err : {});
}

/** The message that a job has failed, with the job's type. Without a state, the server keeps the state that it has. */
export function failure(
  { jobId, type: { case: type } }: { jobId: string; type: { case: AcquiredJob['type']['case'] } },
  error: string,
  { state = new Uint8Array(), timings = [] }: { state?: Uint8Array; timings?: Timing[] } = {},
): FailedJob {
  const failed = create(FailedJobSchema, { jobId, error, errorCode: errorCode(error) });
  if (type === 'workspaceBuild') {
    failed.type = { case: type, value: create(FailedJob_WorkspaceBuildSchema, { state, timings }) };
  } else if (type === 'templateImport') {
    failed.type = { case: type, value: create(FailedJob_TemplateImportSchema) };
  } else if (type === 'templateDryRun') {
    failed.type = { case: type, value: create(FailedJob_TemplateDryRunSchema) };
  }
  return failed;
}
