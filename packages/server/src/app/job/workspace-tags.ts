import type { ChosenWorkspace, TagProblem } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import type { Db } from '../../db/connect.ts';
import { versionTags } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context/context.ts';
import type { NameValue } from '../evaluate/parameter-values.ts';
import type { Answers } from '../parameters/answers.ts';
import { sourceOf, tagEvaluationFor, tagsOnThread } from '../parameters/evaluation.ts';
import { areTooLong, mutateTags, type Tags, TOO_LONG } from './tags.ts';

/** The build that needs tags. It need not exist yet. */
export interface BuildOf {
  versionId: string;
  /** The workspace owner. */
  ownerId: string;
  /** A parameter that is not listed has its default. */
  parameters?: readonly NameValue[];
  /** Absent: its id and name are unknown. */
  workspace?: ChosenWorkspace;
}

/**
 * The tags of a build's job: those of its version, overwritten by key by the template's `coder_workspace_tags`, even
 * with an empty value. Writes nothing.
 * @throws AppError `invalid` with a validation of field `tags` for each tag that has no value before Terraform runs
 */
export async function buildTags(
  ctx: Pick<Ctx, 'accessUrl'>,
  db: Db,
  answers: Answers,
  { versionId, ownerId, parameters = [], workspace }: BuildOf,
): Promise<Tags> {
  const version = await versionTags(db, versionId);
  if (!version) throw new AppError('invalid', 'Template version not found.');
  const base = mutateTags(ownerId, version.tags);
  if (!version.names_tags) return base;
  const source = await sourceOf(db, versionId);
  const inputs = Object.fromEntries(parameters.map(({ name, value }) => [name, value]));
  const given = { inputs, ...(workspace ? { workspace } : {}) };
  const request = await tagEvaluationFor(ctx, db, source, ownerId, given);
  if (!request) throw new AppError('invalid', 'The owner of the workspace does not exist.');
  const evaluated = answers.of('evaluateTags', request, (now, by) => tagsOnThread(now, source, request, by))!;
  if (evaluated.problems.length > 0) throw rejected(evaluated.problems);
  return overwritten(base, new Map(Object.entries(evaluated.tags)), ownerId);
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
    throw rejected([
      { label: 'Tag "scope"', why: `It must be "organization" or "user", not ${JSON.stringify(scope)}.` },
    ]);
  const owner = scope === 'user' ? ownerId : '';
  if (evaluated.has('owner') && evaluated.get('owner') !== owner)
    throw rejected([
      {
        label: 'Tag "owner"',
        why: "With scope user it must be empty or the workspace owner's ID, otherwise it must be empty.",
      },
    ]);
  tags.set('owner', owner);
  const all = Object.fromEntries(tags);
  if (areTooLong(all)) throw rejected([{ label: '', why: TOO_LONG }]);
  return all;
}

function rejected(problems: readonly TagProblem[]): AppError {
  const details = problems.map(({ label, why }) => (label ? `${label}: ${why}` : why));
  return new AppError('invalid', "Could not determine the template's workspace tags.", {
    detail: details.join('\n'),
    validations: details.map((detail) => ({ field: 'tags', detail })),
  });
}
