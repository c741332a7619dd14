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
import { type Inputs, type Known, templateScope } from './template-scope.ts';

export const MOST_SHOWN = 10;

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

const label = (key: string, value: string) =>
  `Tag ${JSON.stringify(key)} = ${value.length > 200 ? `${value.slice(0, 200)}…` : value}`;

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
  if (written.length > MAX_WORKSPACE_TAGS)
    return rejected([['', `The template sets more than ${MAX_WORKSPACE_TAGS} tags.`]]);
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
      const key = textOf(scope, tag.keyExpr, 'name');
      const value = textOf(scope, tag.valueExpr, 'value');
      if (key === '') throw new EvaluationError('A tag needs a name.');
      if (evaluated.has(key)) throw new EvaluationError(`Tag ${JSON.stringify(key)} is set twice.`);
      evaluated.set(key, value);
    } catch (err) {
      if (!(err instanceof EvaluationError)) throw err;
      // error messages quote values
      const secret = scope.sensitive([...references(tag.keyExpr), ...references(tag.valueExpr)]);
      const why = secret ? 'It failed. The reason is hidden because it depends on sensitive variables.' : err.message;
      problems.push([label(tag.key, tag.value), why]);
      if (exhausted(scope.work) || problems.length >= MOST_SHOWN) break;
    }
  }
  return { tags: problems.length > 0 ? [] : [...evaluated], problems, needsFile: false };
}

/**
 * A tag's name is written without its quotes. A name in parentheses, or one that contains a template sequence, is an
 * expression.
 */
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
  // the database can store neither
  if (text.includes('\0') || !text.isWellFormed())
    throw new EvaluationError(`Its ${what} contains NUL or invalid Unicode.`);
  return text;
}
