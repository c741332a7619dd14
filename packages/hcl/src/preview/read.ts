import { exhausted } from '../evaluate.ts';
import { force } from '../lazy.ts';
import type { BodyInstance } from '../program/instances.ts';
import { EvaluationError, primitiveText, toBool, toNumber, UNKNOWN, Unknown, type Value } from '../values.ts';
import { error, type Notice, type NullableText } from './types.ts';

/** Returns an argument's value. Undefined if the body does not have it, or why it cannot be evaluated. */
export function read(body: BodyInstance, name: string): Value | undefined | EvaluationError {
  try {
    const term = body.argument(name);
    return term === undefined ? undefined : force(term);
  } catch (err) {
    if (!(err instanceof EvaluationError) || exhausted(body.module.program.progress.work)) throw err;
    return err;
  }
}

/** An argument that may be absent: what cannot be known counts as absent, because Terraform will report it. */
export function optional(body: BodyInstance, name: string): string {
  const value = read(body, name);
  return value === undefined || value instanceof EvaluationError ? '' : (primitiveText(value) ?? '');
}

function converted<T>(body: BodyInstance, name: string, to: (value: Value) => T): T | undefined {
  const value = read(body, name);
  if (value === undefined || value === null || value instanceof EvaluationError || value instanceof Unknown)
    return undefined;
  try {
    return to(value);
  } catch (err) {
    if (err instanceof EvaluationError) return undefined;
    throw err;
  }
}

export const optionalBool = (body: BodyInstance, name: string): boolean => converted(body, name, toBool) ?? false;

export const optionalNumber = (body: BodyInstance, name: string): number | undefined =>
  converted(body, name, (value) => Math.trunc(toNumber(value)));

/** Returns a text that the block must have, or why it has none. */
export function required(body: BodyInstance, name: string): string | Notice {
  const value = read(body, name);
  const summary = `Invalid ${JSON.stringify(name)} of ${body.address}`;
  if (value === undefined) return error(`Missing ${JSON.stringify(name)} of ${body.address}`, `Set ${name}.`);
  if (value instanceof EvaluationError) return error(summary, at(body, name, value.message));
  if (value instanceof Unknown)
    return error(summary, at(body, name, 'Its value is not known before Terraform runs. Check what it refers to.'));
  const text = primitiveText(value);
  return text ?? error(summary, at(body, name, 'It must be a string.'));
}

export const at = (body: BodyInstance, name: string, message: string): string => {
  const line = body.written(name)?.range.line;
  return `${body.file}${line === undefined ? '' : `:${line}`}: ${message}`;
};

/** Shows a value as text. */
export function nullable(value: Value | undefined | EvaluationError): NullableText {
  const text = value === undefined || value instanceof EvaluationError ? undefined : primitiveText(value);
  return text === undefined ? { value: '', valid: false } : { value: text, valid: true };
}

/** A value, where one that cannot be evaluated is unknown. */
export const knownOr = (value: Value | undefined | EvaluationError): Value | undefined =>
  value instanceof EvaluationError ? UNKNOWN : value;
