import { Ajv, type Options } from 'ajv';
import type { FastifySchema, FastifySchemaCompiler } from 'fastify';

const shared: Options = {
  strict: false,
  useDefaults: true,
  formats: {
    // the nil id is valid: upstream's clients send it for "none"
    uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
    'date-time': /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/,
  },
};
const strict = new Ajv(shared);
const coercing = new Ajv({ ...shared, coerceTypes: 'array' });
const everyError = new Ajv({ ...shared, allErrors: true });
const everyErrorCoercing = new Ajv({ ...shared, allErrors: true, coerceTypes: 'array' });

/** The largest input for which the answer lists every error, in values. Each error costs far more than its value. */
const MOST_VALUES = 1_000;

/**
 * Texts of a path or query become numbers and booleans. Values of a JSON body keep their types. The check ends at the
 * first error, because a list of a million wrong items would otherwise become a million errors. Small inputs are then
 * checked once more for all of their errors.
 */
export const validatorCompiler: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  const isBody = httpPart === 'body';
  const validate = (isBody ? strict : coercing).compile(schema as object);
  let all: typeof validate | undefined;
  return (data: unknown) => {
    if (validate(data)) return true;
    const [first] = validate.errors ?? [];
    if (hasMoreValues(data, MOST_VALUES)) return { error: validationError(first ? [first] : []) };
    all ??= (isBody ? everyError : everyErrorCoercing).compile(schema as object);
    all(data);
    return { error: validationError(all.errors ?? []) };
  };
};

/** Whether a value holds more than `most` values, itself included. Looks at no more than that. */
function hasMoreValues(value: unknown, most: number): boolean {
  let left = most;
  const walk = (one: unknown): boolean => {
    left -= 1;
    if (left < 0) return true;
    if (typeof one !== 'object' || one === null) return false;
    for (const key in one) if (walk((one as Record<string, unknown>)[key])) return true;
    return false;
  };
  return walk(value);
}

function validationError(validation: NonNullable<ReturnType<Ajv['compile']>['errors']>): Error {
  return Object.assign(new Error('validation failed'), { validation, statusCode: 400 });
}
