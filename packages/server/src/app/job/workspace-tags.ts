import {
  EvaluationError,
  type Expr,
  evaluate,
  exhausted,
  MAX_WORKSPACE_TAGS,
  parseExpression,
  primitiveText,
  references,
  Unknown,
  type Value,
} from '@platform/hcl';
import { AppError } from '@platform/kit';
import type { Db } from '../../db/connect.ts';
import { areTooLong, mutateTags, type Tags, TOO_LONG } from './tags.ts';
import { type BuildOf, type Known, templateScope } from './template-scope.ts';

export type { BuildOf };

const MOST_SHOWN = 10;

/**
 * The tags of the job of a build: its version's, then what the template's `coder_workspace_tags` say, which overwrite
 * by key, also with empty text. Throws `invalid` with a validation of field `tags` for each tag that has no value before
 * Terraform runs. Writes nothing.
 */
export async function buildTags(db: Db, build: BuildOf): Promise<Tags> {
  const [version] = await db<{ file_id: string; tags: Tags; expressions: Tags | null }[]>`
    SELECT j.file_id, j.tags, (SELECT jsonb_object_agg(w.key, w.value) FROM template_version_workspace_tags w
      WHERE w.template_version_id = tv.id) AS expressions
    FROM template_versions tv JOIN provisioner_jobs j ON j.id = tv.job_id WHERE tv.id = ${build.versionId}`;
  if (!version) throw new AppError('invalid', 'Template version not found.');
  const base = mutateTags(build.ownerId, version.tags);
  if (!version.expressions) return base;
  const evaluated = await evaluateTags(db, build, version.file_id, Object.entries(version.expressions));
  return overwritten(base, evaluated, build.ownerId);
}

interface TagExpression {
  /** As it was written. */
  key: string;
  value: string;
  keyExpr: Expr;
  valueExpr: Expr;
}

async function evaluateTags(
  db: Db,
  build: BuildOf,
  fileId: string,
  written: [string, string][],
): Promise<Map<string, string>> {
  if (written.length > MAX_WORKSPACE_TAGS)
    throw refused([['', `The template sets more than ${MAX_WORKSPACE_TAGS} tags.`]]);
  const problems: Problem[] = [];
  const tags: TagExpression[] = [];
  for (const [key, value] of written) {
    const [keyExpr, valueExpr] = [keyExpression(key), parseExpression(value)];
    const wrong = keyExpr.diagnostics[0] ?? valueExpr.diagnostics[0];
    if (keyExpr.expr && valueExpr.expr) tags.push({ key, value, keyExpr: keyExpr.expr, valueExpr: valueExpr.expr });
    else problems.push([label(key, value), wrong?.message ?? 'It can not be read.']);
  }
  const needed = tags.flatMap(({ keyExpr, valueExpr }) => [...references(keyExpr), ...references(valueExpr)]);
  const scope = await templateScope(db, { ...build, fileId }, needed).catch((err: unknown) => {
    throw err instanceof EvaluationError ? refused([['', err.message]]) : err;
  });
  const evaluated = new Map<string, string>();
  for (const tag of tags) {
    try {
      const key = textOf(scope, tag.keyExpr, 'name');
      const value = textOf(scope, tag.valueExpr, 'value');
      if (key === '') throw new EvaluationError('A tag needs a name.');
      if (evaluated.has(key)) throw new EvaluationError(`Tag ${JSON.stringify(key)} is set twice.`);
      evaluated.set(key, value);
    } catch (err) {
      if (!(err instanceof EvaluationError)) throw err;
      // messages quote values
      const secret = scope.sensitive([...references(tag.keyExpr), ...references(tag.valueExpr)]);
      const why = secret ? 'It fails; why is not shown, since it depends on sensitive variables.' : err.message;
      problems.push([label(tag.key, tag.value), why]);
      if (exhausted(scope.work) || problems.length >= MOST_SHOWN) break;
    }
  }
  if (problems.length > 0) throw refused(problems);
  return evaluated;
}

/** A tag's name is written without its quotes; in parentheses, or with a sequence of a template in it, it is an expression. */
function keyExpression(key: string): ReturnType<typeof parseExpression> {
  if (key.startsWith('(')) return parseExpression(key);
  if (/[$%]\{|\\/.test(key)) return parseExpression(`"${key}"`);
  return { expr: { kind: 'literal', value: key, range: { start: 0, end: 0, line: 1 }, depth: 1 }, diagnostics: [] };
}

function textOf(scope: Known, expr: Expr, what: 'name' | 'value'): string {
  const value: Value = evaluate(expr, { variables: scope.variables(expr) }, scope.work);
  if (value instanceof Unknown) {
    const unknown = scope.unknown(references(expr));
    const on = unknown.length > 0 ? unknown.join(', ') : 'something that';
    throw new EvaluationError(`It depends on ${on}, which is not known before Terraform runs.`);
  }
  if (value === null) throw new EvaluationError(`Its ${what} is null.`);
  const text = primitiveText(value);
  if (text === undefined) throw new EvaluationError(`Its ${what} must be a string, a number or a bool.`);
  // neither can be stored
  if (text.includes('\0') || !text.isWellFormed()) throw new EvaluationError(`Its ${what} holds NUL or broken text.`);
  return text;
}

/**
 * Evaluated tags over those of the version. Who takes a job of scope `user` is not the author's to choose: such a job
 * runs, with the owner's secrets and the author's code, on machines of the person in `owner`. So that is always the
 * workspace's owner, as with tags that are given when a version is pushed, and any other `owner` is refused.
 */
function overwritten(base: Tags, evaluated: ReadonlyMap<string, string>, ownerId: string): Tags {
  const tags = new Map([...Object.entries(base), ...evaluated]);
  const scope = tags.get('scope')!;
  if (scope !== 'user' && scope !== 'organization')
    throw refused([['Tag "scope"', `It must be "organization" or "user", not ${JSON.stringify(scope)}.`]]);
  const owner = scope === 'user' ? ownerId : '';
  if (evaluated.has('owner') && evaluated.get('owner') !== owner)
    throw refused([['Tag "owner"', "With scope user it can only be the workspace owner's ID, else only empty."]]);
  tags.set('owner', owner);
  const all = Object.fromEntries(tags);
  if (areTooLong(all)) throw refused([['', TOO_LONG]]);
  return all;
}

/** What is wrong with which tag. */
type Problem = [label: string, why: string];

const label = (key: string, value: string) =>
  `Tag ${JSON.stringify(key)} = ${value.length > 200 ? `${value.slice(0, 200)}…` : value}`;

function refused(problems: Problem[]): AppError {
  const details = problems.slice(0, MOST_SHOWN).map(([what, why]) => (what ? `${what}: ${why}` : why));
  return new AppError('invalid', "The template's workspace tags can not be determined.", {
    detail: details.join('\n'),
    validations: details.map((detail) => ({ field: 'tags', detail })),
  });
}
