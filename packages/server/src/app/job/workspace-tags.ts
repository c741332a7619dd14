import { AppError } from '@platform/kit';
import type { Db } from '../../db/connect.ts';
import { fileData } from '../../db/queries/files.ts';
import { ownerFacts } from '../../db/queries/job-contents.ts';
import { variableValues, versionParameters, versionTags } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context/context.ts';
import { type EvaluatedTags, MAX_SHOWN, type Problem, type TagRequest } from '../evaluate/tag-values.ts';
import type { BuildOf, Inputs } from '../evaluate/template-scope.ts';
import type { Answers } from '../parameters/answers.ts';
import type { By } from '../threads/pool.ts';
import { areTooLong, mutateTags, type Tags, TOO_LONG } from './tags.ts';

export type { BuildOf };

/**
 * The tags of a build's job: those of its version, overwritten by key by the template's `coder_workspace_tags`, even
 * with an empty value. Writes nothing.
 * @throws AppError `invalid` with a validation of field `tags` for each tag that has no value before Terraform runs
 */
export async function buildTags(db: Db, answers: Answers, build: BuildOf): Promise<Tags> {
  const version = await versionTags(db, build.versionId);
  if (!version) throw new AppError('invalid', 'Template version not found.');
  const base = mutateTags(build.ownerId, version.tags);
  if (!version.expressions) return base;
  const inputs = await inputsOf(db, build, version.file_id);
  const request: TagRequest = { expressions: Object.entries(version.expressions), inputs };
  const evaluated = answers.of('evaluateTags', request, (ctx, by) => ask(ctx, by, request));
  if (evaluated.problems.length > 0) throw rejected(evaluated.problems);
  return overwritten(base, new Map(evaluated.tags), build.ownerId);
}

async function inputsOf(db: Db, build: BuildOf, fileId: string): Promise<Inputs> {
  const variables = await variableValues(db, build.versionId);
  const parameters = await versionParameters(db, build.versionId);
  const owner = await ownerFacts(db, build.ownerId);
  return {
    build,
    variables: variables,
    parameters: [...parameters],
    owner,
    file: { id: fileId },
  };
}

/** Sends the archive to the worker thread only if it needs the files and has not read them before. */
async function ask(ctx: Ctx, by: Omit<By, 'what'>, request: TagRequest): Promise<EvaluatedTags> {
  const what = "Evaluating the template's workspace tags";
  const first = await ctx.work.evaluation.run('evaluateTags', request, { ...by, what });
  if (!first.needsFile) return first;
  const withFile = async (): Promise<TagRequest> => {
    const { id } = request.inputs.file;
    const data = await fileData(ctx.sql, id);
    if (!data) throw rejected([['', "The template's files no longer exist."]]);
    return { ...request, inputs: { ...request.inputs, file: { id, data } } };
  };
  return ctx.work.evaluation.run('evaluateTags', withFile, { ...by, what });
}

/**
 * Merges the evaluated tags over those of the version. The template author must not choose who takes a job of scope
 * `user`: such a job runs with the workspace owner's secrets and the author's code on machines of the person in
 * `owner`. So that person is always the workspace's owner, as with tags given when a version is pushed, and any other
 * `owner` is rejected.
 */
function overwritten(base: Tags, evaluated: ReadonlyMap<string, string>, ownerId: string): Tags {
  const tags = new Map([...Object.entries(base), ...evaluated]);
  const scope = tags.get('scope')!;
  if (scope !== 'user' && scope !== 'organization')
    throw rejected([['Tag "scope"', `It must be "organization" or "user", not ${JSON.stringify(scope)}.`]]);
  const owner = scope === 'user' ? ownerId : '';
  if (evaluated.has('owner') && evaluated.get('owner') !== owner)
    throw rejected([
      ['Tag "owner"', "With scope user it must be empty or the workspace owner's ID, otherwise it must be empty."],
    ]);
  tags.set('owner', owner);
  const all = Object.fromEntries(tags);
  if (areTooLong(all)) throw rejected([['', TOO_LONG]]);
  return all;
}

function rejected(problems: Problem[]): AppError {
  const details = problems.slice(0, MAX_SHOWN).map(([what, why]) => (what ? `${what}: ${why}` : why));
  return new AppError('invalid', "Could not determine the template's workspace tags.", {
    detail: details.join('\n'),
    validations: details.map((detail) => ({ field: 'tags', detail })),
  });
}
