import type { Chosen, Preview, PreviewOwner, WorkspaceTags } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import type { Db } from '../../db/connect.ts';
import {
  type PreviewOwnerRow,
  type PreviewSource,
  plannedValues,
  previewOwner,
  previewSource,
} from '../../db/queries/dynamic-parameters.ts';
import { fileData } from '../../db/queries/files.ts';
import { variableValues, versionParameters } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context/context.ts';
import type { NameValue } from '../evaluate/parameter-values.ts';
import type { PreviewRequest, PreviewSubject } from '../evaluate/preview.ts';
import type { ResolveRequest } from '../evaluate/resolve.ts';
import type { TagRequest } from '../evaluate/tags.ts';
import type { VersionFiles } from '../evaluate/templates.ts';
import type { By } from '../threads/task-queue.ts';

/** The first API version of daemons that send the plan and the files of modules. */
const LEAST_MINOR = 6;

/** Whether a version was imported with everything that an evaluation needs. */
export function isEvaluable({ provisionerd_version: version }: PreviewSource): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)$/.exec(version) ?? [];
  return Number(major) > 1 || (Number(major) === 1 && Number(minor) >= LEAST_MINOR);
}

/** The evaluation of a version for one owner. Only the values of its parameters change. */
export interface Evaluation {
  source: PreviewSource;
  request: PreviewRequest;
}

export async function sourceOf(db: Db, versionId: string): Promise<PreviewSource> {
  const source = await previewSource(db, versionId);
  if (!source) throw new AppError('not_found', 'Template version not found.');
  return source;
}

/** Collects what an evaluation needs, except for large files. Undefined: the owner is not a member. */
export async function evaluationFor(
  ctx: Pick<Ctx, 'accessUrl'>,
  db: Db,
  source: PreviewSource,
  ownerId: string,
): Promise<Evaluation | undefined> {
  const { version_id: versionId } = source;
  const owner = await previewOwner(db, ownerId, source.organization_id);
  if (!owner?.is_member) return undefined;
  const subject: PreviewSubject = isEvaluable(source)
    ? { version: { id: versionId } }
    : { stored: [...(await versionParameters(db, versionId))] };
  return { source, request: { subject, chosen: await chosenBy(ctx, db, source, owner) } };
}

/** What is known for each evaluation of a version for this owner. */
async function chosenBy(
  { accessUrl }: Pick<Ctx, 'accessUrl'>,
  db: Db,
  { version_id: versionId, organization_id: organizationId }: PreviewSource,
  owner: PreviewOwnerRow,
): Promise<Chosen> {
  const variables = (await variableValues(db, versionId))
    .filter(({ given }) => given)
    .map(({ name, type, value, sensitive }) => ({ name, type, value, sensitive }));
  return { inputs: {}, owner: toOwner(owner, organizationId), accessUrl, variables };
}

/** The evaluation of a version's workspace tags. Undefined: the person does not exist. */
export async function tagEvaluationFor(
  ctx: Pick<Ctx, 'accessUrl'>,
  db: Db,
  source: PreviewSource,
  ownerId: string,
  given: Pick<Chosen, 'inputs' | 'workspace'>,
): Promise<TagRequest | undefined> {
  // the workspace of a person who left the organization can still be stopped and deleted
  const owner = await previewOwner(db, ownerId, source.organization_id);
  if (!owner) return undefined;
  const version = { id: source.version_id };
  return { version, chosen: { ...(await chosenBy(ctx, db, source, owner)), ...given } };
}

/** The owner as templates see them. */
export const toOwner = (
  { roles, organization_roles: own, is_member: isMember, ...owner }: PreviewOwnerRow,
  organizationId: string,
): PreviewOwner => ({
  ...owner,
  rbac_roles: [
    ...[...roles, 'member'].map((name) => ({ name, org_id: '' })),
    ...(isMember ? [...new Set([...own, 'organization-member'])] : []).map((name) => ({
      name,
      org_id: organizationId,
    })),
  ],
});

const WHAT = "Evaluating the template's parameters";
export const WHAT_OF_TAGS = "Evaluating the template's workspace tags";

/** Runs a task on a worker thread, which gets the version's files only if it has not read them before. */
async function withFiles<T>(
  { sql }: Pick<Ctx, 'sql'>,
  { version_id: id, file_id: fileId, module_files_id: moduleFilesId }: PreviewSource,
  run: (files?: () => Promise<VersionFiles>) => Promise<T | undefined>,
): Promise<T> {
  const first = await run();
  if (first !== undefined) return first;
  const made = await run(async () => {
    const archive = await fileData(sql, fileId);
    const modules = moduleFilesId ? await fileData(sql, moduleFilesId) : undefined;
    if (!archive) throw new AppError('not_found', "The template's files no longer exist.");
    const plan = await plannedValues(sql, id);
    return { archive, ...(modules ? { modules } : {}), ...(plan === undefined ? {} : { plan }) };
  });
  return made!;
}

const subjectWith = (subject: PreviewSubject, files: VersionFiles): PreviewSubject =>
  'version' in subject ? { version: { ...subject.version, files } } : subject;

/** Evaluates the parameters with these values. */
export function previewOnThread(
  ctx: Ctx,
  { source, request }: Evaluation,
  inputs: Readonly<Record<string, string>>,
  by: Omit<By, 'what'>,
): Promise<Preview> {
  const wanted: PreviewRequest = { ...request, chosen: { ...request.chosen, inputs } };
  return withFiles(ctx, source, (files) =>
    ctx.work.evaluation.run(
      'previewParameters',
      files ? async () => ({ ...wanted, subject: subjectWith(wanted.subject, await files()) }) : wanted,
      { ...by, what: WHAT },
    ),
  );
}

/**
 * The values that a build uses.
 * @throws AppError `invalid` that names every wrong parameter
 */
export function resolveOnThread(
  ctx: Ctx,
  source: PreviewSource,
  request: ResolveRequest,
  by: Omit<By, 'what'>,
): Promise<NameValue[]> {
  return withFiles(ctx, source, (files) =>
    ctx.work.evaluation.run(
      'resolveValues',
      files ? async () => ({ ...request, subject: subjectWith(request.subject, await files()) }) : request,
      { ...by, what: WHAT },
    ),
  );
}

/** The tags that a version's `coder_workspace_tags` give to a build. */
export function tagsOnThread(
  ctx: Ctx,
  source: PreviewSource,
  request: TagRequest,
  by: Omit<By, 'what'>,
): Promise<WorkspaceTags> {
  return withFiles(ctx, source, (files) =>
    ctx.work.evaluation.run(
      'evaluateTags',
      files ? async () => ({ ...request, version: { ...request.version, files: await files() } }) : request,
      { ...by, what: WHAT_OF_TAGS },
    ),
  );
}
