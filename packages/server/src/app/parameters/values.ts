import { AppError, isAppError } from '@ropewalk/kit';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import type { Db } from '../../db/connect.ts';
import { takesPromptItself, versionParameters } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context/context.ts';
import type { NameValue } from '../evaluate/parameter-values.ts';
import type { Answers } from './answers.ts';
import { evaluationFor, isEvaluable, resolveOnThread, sourceOf } from './evaluation.ts';
import { resolveParameters } from './parameters.ts';

/** The choices behind the values of a build. */
export interface ValueChoice {
  versionId: string;
  ownerId: string;
  /** Whether the template uses the parameters that the import found, instead of evaluating them for each build. */
  classic: boolean;
  given: readonly NameValue[];
  preset: Readonly<Record<string, string>>;
  /** The values of the last build. Absent for the first one. */
  last: readonly NameValue[] | undefined;
  /** Whether the values of the last build are used unchecked, so that a running workspace can always be stopped. */
  trustLast: boolean;
}

/**
 * The values that a build uses.
 * @throws AppError `invalid` that names every wrong parameter
 */
export async function buildValues(ctx: Ctx, db: Db, answers: Answers, choice: ValueChoice): Promise<NameValue[]> {
  const prompt = [...choice.given, ...(choice.last ?? [])].find(isPrompt);
  if (!prompt || !(await takesPromptItself(db, choice.versionId))) return declaredValues(ctx, db, answers, choice);
  const others = (values: readonly NameValue[]) => values.filter((value) => !isPrompt(value));
  const declared = { ...choice, given: others(choice.given), last: choice.last && others(choice.last) };
  return [...(await declaredValues(ctx, db, answers, declared)), prompt];
}

/** The prompt of a task is stored like a parameter, even if the template reads it from `coder_task` and declares none. */
export const isPrompt = ({ name }: NameValue): boolean => name === PROMPT_PARAMETER;

async function declaredValues(ctx: Ctx, db: Db, answers: Answers, choice: ValueChoice): Promise<NameValue[]> {
  if (choice.classic) return classicValues(db, answers, choice);
  try {
    return (await evaluatedValues(ctx, db, answers, choice)) ?? (await classicValues(db, answers, choice));
  } catch (err) {
    // a template that can no longer be evaluated must not keep a workspace running
    if (!choice.trustLast || choice.given.length > 0 || !isAppError(err)) throw err;
    return classicValues(db, answers, choice);
  }
}

async function classicValues(db: Db, answers: Answers, choice: ValueChoice): Promise<NameValue[]> {
  const { versionId, given, preset, last, trustLast } = choice;
  return resolveParameters(answers, await versionParameters(db, versionId), given, preset, last, { trustLast });
}

/** Undefined if the version has no parameters, or was imported without what an evaluation needs. */
async function evaluatedValues(
  ctx: Ctx,
  db: Db,
  answers: Answers,
  { versionId, ownerId, given, preset, last, trustLast }: ValueChoice,
): Promise<NameValue[] | undefined> {
  const source = await sourceOf(db, versionId);
  if (!source.has_parameters || !isEvaluable(source)) return undefined;
  const evaluation = await evaluationFor(ctx, db, source, ownerId);
  if (!evaluation)
    throw new AppError('invalid', "The workspace's owner is not a member of the template's organization.");
  const request = { ...evaluation.request, given, preset, last, trustLast };
  return answers.of('resolveValues', request, (now, by) => resolveOnThread(now, source, request, by));
}
