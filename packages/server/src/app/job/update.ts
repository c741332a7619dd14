import { AppError } from '@platform/kit';
import type { LogNumber } from '@platform/wire/log-sequence';
import type { UpdateJobRequest } from '@platform/wire/proto/provisionerd';
import type { Db, Tx } from '../../db/connect.ts';
import { insertJobLogs, type LogLine } from '../../db/queries/job-logs.ts';
import {
  type Owned,
  type OwnedJob,
  type Ownership,
  setLogPositions,
  type TouchedJob,
  touchJob,
} from '../../db/queries/job-ownership.ts';
import { importedVersion, setReadme, upsertVariable, upsertWorkspaceTag } from '../../db/queries/version-contents.ts';
import type { Services } from '../context.ts';
import { notOwned } from './complete.ts';
import { logLine, unstored } from './log-lines.ts';

/** Selects the lines of an owned job to store now. */
type KeepLogs = (lines: LogLine[], job: OwnedJob) => LogLine[];

export interface UpdateResult {
  canceled: boolean;
  variableValues: { name: string; value: string; sensitive: boolean }[];
}

/** A daemon's report on its job: a sign of life, logs, and what it found in the template. */
export async function updateJob(
  services: Services,
  own: Ownership,
  request: UpdateJobRequest,
  keepLogs: KeepLogs,
  /** The number of each log line, from our daemons. */
  numbers?: LogNumber[],
): Promise<UpdateResult> {
  const { sql } = services;
  const lines = request.logs.map(logLine);
  // The touch locks the job's row. Of two batches with the same lines, the second sees how far the first got.
  const touched = numbers
    ? await sql.begin((tx) => touchAndLog(services, tx, own, lines, keepLogs, numbers))
    : await touchAndLog(services, sql, own, lines, keepLogs);
  if (!touched) throw await notOwned(services, own);
  const canceled = touched.canceled_at !== null;
  const found =
    request.templateVariables.length > 0 || request.readme.length > 0 || Object.keys(request.workspaceTags).length > 0;
  if (!found) return { canceled, variableValues: [] };
  return { canceled, variableValues: await storeTemplateFacts(services, touched, request) };
}

async function touchAndLog(
  { events, config }: Services,
  db: Db,
  own: Ownership,
  lines: LogLine[],
  keepLogs: KeepLogs,
  numbers?: LogNumber[],
): Promise<Owned<TouchedJob> | undefined> {
  const touched = await touchJob(db, own, config.provisionerLease);
  if (!touched || lines.length === 0) return touched;
  let fresh = lines;
  const writes: Promise<unknown>[] = [];
  if (numbers) {
    const found = unstored(lines, numbers, own.epoch, touched.log_positions);
    fresh = found.fresh;
    if (fresh.length > 0) writes.push(setLogPositions(db as Tx, touched, found.positions));
  }
  const kept = keepLogs(fresh, touched);
  if (kept.length > 0) writes.push(insertJobLogs(db, touched, kept));
  await Promise.all(writes);
  if (kept.length > 0) await events.publish(db, 'job_changed', { job_id: own.jobId, logs: true });
  return touched;
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
      for (const variable of request.templateVariables) {
        const value = given.get(variable.name) ?? variable.defaultValue;
        if (variable.required && value === '') missing.push(variable.name);
        values.push({ name: variable.name, value, sensitive: variable.sensitive });
        await upsertVariable(tx, version, {
          name: variable.name,
          description: variable.description,
          type: variable.type,
          value,
          default_value: variable.defaultValue,
          required: variable.required,
          sensitive: variable.sensitive,
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
