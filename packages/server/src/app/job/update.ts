import { AppError } from '@ropewalk/kit';
import type { LogNumber } from '@ropewalk/wire/log-sequence';
import type { UpdateJobRequest } from '@ropewalk/wire/proto/provisionerd';
import type { Owned, Ownership } from '../../db/owned.ts';
import { insertJobLogs, type LogLine, touchWithLogs } from '../../db/queries/job-logs.ts';
import { type OwnedJob, setLogPositions, type TouchedJob, touchJob } from '../../db/queries/job-ownership.ts';
import { importedVersion, setReadme, upsertVariable, upsertWorkspaceTag } from '../../db/queries/version-contents.ts';
import { together } from '../../db/together.ts';
import type { Services } from '../context/context.ts';
import { notOwned } from './complete.ts';
import type { LogKeeper } from './log-keeper.ts';
import { logLine, unstored } from './log-lines.ts';

export interface UpdateResult {
  canceled: boolean;
  variableValues: { name: string; value: string; sensitive: boolean }[];
}

/** A daemon's report on its job: a sign of life, logs, and what it found in the template. */
export async function updateJob(
  services: Services,
  own: Ownership,
  request: UpdateJobRequest,
  keeper: LogKeeper,
  /** The number of each log line, from our daemons. */
  numbers?: LogNumber[],
): Promise<UpdateResult> {
  const lines = request.logs.map(logLine);
  const touched = numbers
    ? ((await storeNext(services, own, lines, keeper, numbers)) ??
      (await storeFresh(services, own, lines, keeper, numbers)))
    : await storeAll(services, own, lines, keeper);
  if (!touched) throw await notOwned(services.sql, own);
  const canceled = touched.canceled_at !== null;
  const found =
    request.templateVariables.length > 0 || request.readme.length > 0 || Object.keys(request.workspaceTags).length > 0;
  if (!found) return { canceled, variableValues: [] };
  return { canceled, variableValues: await storeTemplateFacts(services, touched, request) };
}

/** Stores lines without numbers. */
async function storeAll(
  { sql, events, config }: Services,
  own: Ownership,
  lines: LogLine[],
  keeper: LogKeeper,
): Promise<Owned<TouchedJob> | undefined> {
  const touched = await touchJob(sql, own, config.provisionerLease);
  const kept = touched ? keeper.keep(lines, touched) : [];
  if (kept.length === 0) return touched;
  await insertJobLogs(sql, touched!, kept);
  events.publishSoon('job_changed', { job_id: own.jobId, logs: true });
  return touched;
}

/**
 * Stores numbered lines in one statement: a build begins when its first report is answered. Undefined without a change if
 * this server does not know how much of the log is stored, or if the log is too long to store all of it.
 */
async function storeNext(
  { sql, events, config }: Services,
  own: Ownership,
  lines: LogLine[],
  keeper: LogKeeper,
  numbers: LogNumber[],
): Promise<Owned<TouchedJob> | undefined> {
  const known = keeper.stored;
  if (!known || !keeper.hasRoom(lines)) return undefined;
  const { fresh, positions } = unstored(lines, numbers, own.epoch, known);
  if (fresh.length === 0) return undefined;
  const touched = await touchWithLogs(sql, own, config.provisionerLease, { known, positions, lines: fresh });
  if (!touched) return undefined;
  keeper.stored = positions;
  // counts them
  keeper.keep(fresh, touched);
  events.publishSoon('job_changed', { job_id: own.jobId, logs: true });
  return touched;
}

/** Stores those of the numbered lines that are not stored yet. */
async function storeFresh(
  services: Services,
  own: Ownership,
  lines: LogLine[],
  keeper: LogKeeper,
  numbers: LogNumber[],
): Promise<Owned<TouchedJob> | undefined> {
  const { sql, events, config } = services;
  const stored = await sql.begin(async (tx) => {
    // It locks the job's row. Of two batches with the same lines, the second sees how far the first got.
    const touched = await touchJob(tx, own, config.provisionerLease);
    if (!touched) return undefined;
    const { fresh, positions } = unstored(lines, numbers, own.epoch, touched.log_positions);
    if (fresh.length > 0) {
      const kept = keeper.keep(fresh, touched);
      await together([
        setLogPositions(tx, touched, positions),
        kept.length > 0 ? insertJobLogs(tx, touched, kept) : undefined,
      ]);
      if (kept.length > 0) await events.publish(tx, 'job_changed', { job_id: own.jobId, logs: true });
    }
    return { touched, positions };
  });
  keeper.stored = stored?.positions;
  return stored?.touched;
}

/** The largest stored README of a template, in bytes: every list of its versions contains it. */
const LONGEST_README = 262_144;

async function storeTemplateFacts(services: Services, job: OwnedJob, request: UpdateJobRequest) {
  return services.sql
    .begin(async (tx) => {
      const version = await importedVersion(tx, job);
      if (!version) throw new AppError('invalid', 'This job does not import a template version.');
      if (request.readme.length > 0) {
        const readme = Buffer.from(request.readme.subarray(0, LONGEST_README)).toString('utf8').replaceAll('\0', '');
        await setReadme(tx, version, readme);
      }
      for (const [key, value] of Object.entries(request.workspaceTags)) {
        await upsertWorkspaceTag(tx, version, key, value);
      }
      const given = new Map(request.userVariableValues.map(({ name, value }) => [name, value]));
      const values: { name: string; value: string; sensitive: boolean }[] = [];
      const missing: string[] = [];
      for (const [position, variable] of request.templateVariables.entries()) {
        const value = given.get(variable.name) ?? variable.defaultValue;
        if (variable.required && value === '') missing.push(variable.name);
        // Terraform reads other values from the files. As text, a default would lose its type.
        if (given.has(variable.name)) values.push({ name: variable.name, value, sensitive: variable.sensitive });
        await upsertVariable(tx, version, {
          name: variable.name,
          description: variable.description,
          type: variable.type,
          value,
          default_value: variable.defaultValue,
          required: variable.required,
          sensitive: variable.sensitive,
          given: given.has(variable.name),
          position,
        });
      }
      // The variables are stored, so that the client can ask for their values. Upstream's daemons match this text.
      return missing.length > 0 ? { missing } : { values };
    })
    .then((result) => {
      if ('missing' in result)
        throw new AppError('invalid', `required template variables need values: ${result.missing!.join(', ')}`);
      return result.values!;
    });
}
