import {
  ALL_TAGS,
  Dict,
  EvaluationError,
  type Expr,
  evaluate,
  exhausted,
  MAX_WORKSPACE_TAGS,
  parseExpression,
  primitiveText,
  references,
  Seq,
  Unknown,
  type Value,
} from '@platform/hcl';
import { type Inputs, type Known, templateScope } from './template-scope.ts';

export const MAX_SHOWN = 10;

const TOO_MANY = `The template sets more than ${MAX_WORKSPACE_TAGS} tags.`;

export interface TagRequest {
  /** Names and values as the template author wrote them. */
  expressions: [string, string][];
  inputs: Inputs;
}

export interface EvaluatedTags {
  tags: [string, string][];
  problems: Problem[];
  /** Whether the worker thread needs the template's files. */
  needsFile: boolean;
}

/** Which tag is wrong, and why. */
export type Problem = [label: string, why: string];

function label(key: string, written: string): string {
  // all tags are a list of their objects, each on lines of its own
  const value = key === ALL_TAGS ? written.replace(/^\[\n|\n,\n\]$/g, '') : written;
  const shown = value.length > 200 ? `${value.slice(0, 200)}…` : value;
  return key === ALL_TAGS ? `tags = ${shown}` : `Tag ${JSON.stringify(key)} = ${shown}`;
}

interface TagExpression {
  /** As the template author wrote it. */
  key: string;
  value: string;
  keyExpr: Expr;
  valueExpr: Expr;
}

/** Runs on a worker thread. Never throws because of a template's content. */
export async function evaluateTags({ expressions: written, inputs }: TagRequest): Promise<EvaluatedTags> {
  const rejected = (problems: Problem[]): EvaluatedTags => ({ tags: [], problems, needsFile: false });
  if (written.length > MAX_WORKSPACE_TAGS) return rejected([['', TOO_MANY]]);
  const problems: Problem[] = [];
  const tags: TagExpression[] = [];
  for (const [key, value] of written) {
    const [keyExpr, valueExpr] = [keyExpression(key), parseExpression(value)];
    const wrong = keyExpr.diagnostics[0] ?? valueExpr.diagnostics[0];
    if (keyExpr.expr && valueExpr.expr) tags.push({ key, value, keyExpr: keyExpr.expr, valueExpr: valueExpr.expr });
    else problems.push([label(key, value), wrong?.message ?? 'It cannot be parsed.']);
  }
  const needed = tags.flatMap(({ keyExpr, valueExpr }) => [...references(keyExpr), ...references(valueExpr)]);
  let scope: Known | undefined;
  try {
    scope = await templateScope(inputs, needed);
  } catch (err) {
    if (err instanceof EvaluationError) return rejected([['', err.message]]);
    throw err;
  }
  if (!scope) return { tags: [], problems: [], needsFile: true };
  const evaluated = new Map<string, string>();
  for (const tag of tags) {
    try {
      const found =
        tag.key === ALL_TAGS
          ? objectsOf(scope, tag.valueExpr)
          : [[textOf(scope, tag.keyExpr, 'name'), textOf(scope, tag.valueExpr, 'value')] as const];
      for (const [key, value] of found) {
        if (key === '') throw new EvaluationError('A tag needs a name.');
        if (evaluated.has(key)) throw new EvaluationError(`Tag ${JSON.stringify(key)} is set twice.`);
        if (evaluated.size === MAX_WORKSPACE_TAGS) throw new EvaluationError(TOO_MANY);
        evaluated.set(key, value);
      }
    } catch (err) {
      if (!(err instanceof EvaluationError)) throw err;
      // error messages quote values
      const secret = scope.sensitive([...references(tag.keyExpr), ...references(tag.valueExpr)]);
      const why = secret ? 'It failed. The reason is hidden because it depends on sensitive variables.' : err.message;
      problems.push([label(tag.key, tag.value), why]);
      if (exhausted(scope.work) || problems.length >= MAX_SHOWN) break;
    }
  }
  return { tags: problems.length > 0 ? [] : [...evaluated], problems, needsFile: false };
}

/**
 * A tag's name is written without its quotes. A name in parentheses, or one that contains a template sequence, is an
 * expression.
 */
function keyExpression(key: string): ReturnType<typeof parseExpression> {
  if (key.startsWith('(') && key !== ALL_TAGS) return parseExpression(key);
  if (/[$%]\{|\\/.test(key)) return parseExpression(`"${key}"`);
  return { expr: { kind: 'literal', value: key, range: { start: 0, end: 0, line: 1 }, depth: 1 }, diagnostics: [] };
}

/** The tags of a list of objects. */
function objectsOf(scope: Known, expr: Expr): [string, string][] {
  const list = evaluate(expr, { variables: scope.variables(expr) }, scope.work);
  return (list instanceof Seq ? list.items : [list]).flatMap((tags) => {
    if (tags instanceof Unknown) throw unknownTag(scope, expr);
    if (!(tags instanceof Dict)) throw new EvaluationError('It must be an object: { name = value }.');
    return [...tags.entries].map(([key, value]): [string, string] => [
      textOfValue(scope, expr, key, 'name'),
      textOfValue(scope, expr, value, `value of ${JSON.stringify(key)}`),
    ]);
  });
}

function textOf(scope: Known, expr: Expr, what: 'name' | 'value'): string {
  return textOfValue(scope, expr, evaluate(expr, { variables: scope.variables(expr) }, scope.work), what);
}

function unknownTag(scope: Known, expr: Expr): EvaluationError {
  const unknown = scope.unknown(references(expr));
  const on = unknown.length > 0 ? unknown.join(', ') : 'something that';
  return new EvaluationError(`It depends on ${on}, which is not known before Terraform runs.`);
}

function textOfValue(scope: Known, expr: Expr, value: Value, what: string): string {
  if (value instanceof Unknown) throw unknownTag(scope, expr);
  if (value === null) throw new EvaluationError(`Its ${what} is null.`);
  const text = primitiveText(value);
  if (text === undefined) throw new EvaluationError(`Its ${what} must be a string, a number or a bool.`);
  // the database can store neither
  if (text.includes('\0') || !text.isWellFormed())
    throw new EvaluationError(`Its ${what} contains NUL or invalid Unicode.`);
  return text;
}
