import { IMAGE_ADDRESS } from '@ropewalk/contract';
import { Ajv, type Options } from 'ajv';
import fastJsonStringify from 'fast-json-stringify';
import type { FastifySchema, FastifySchemaCompiler, FastifyServerOptions } from 'fastify';

// The first request of a route compiles its schemas. Compiling the schemas of all routes takes more CPU time than the rest
// of the server's start, and most servers use few routes. `validate.test.ts` compiles them all.

const shared: Options = {
  strict: false,
  useDefaults: true,
  // a test checks the schemas, not each start
  meta: false,
  validateSchema: false,
  formats: {
    // the nil id is valid: upstream's clients send it for "none"
    uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
    'image-address': IMAGE_ADDRESS,
    'date-time': /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/,
  },
};
const strict = once(() => new Ajv(shared));
const coercing = once(() => new Ajv({ ...shared, coerceTypes: 'array' }));
const everyError = once(() => new Ajv({ ...shared, allErrors: true }));
const everyErrorCoercing = once(() => new Ajv({ ...shared, allErrors: true, coerceTypes: 'array' }));

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The largest input for which the answer lists every error, in values. Each error costs far more than its value. */
const MAX_VALUES = 1_000;

/**
 * Texts of a path or query become numbers and booleans. Values of a JSON body keep their types. The check ends at the
 * first error, because a list of a million wrong items would otherwise become a million errors. Small inputs are then
 * checked once more for all of their errors.
 */
export const validatorCompiler: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  const isBody = httpPart === 'body';
  const first = once(() => (isBody ? strict : coercing)().compile(schema as object));
  const every = once(() => (isBody ? everyError : everyErrorCoercing)().compile(schema as object));
  return (data: unknown) => {
    const validate = first();
    if (validate(data)) return true;
    const [error] = validate.errors ?? [];
    if (hasMoreValues(data, MAX_VALUES)) return { error: validationError(error ? [error] : []) };
    const all = every();
    all(data);
    return { error: validationError(all.errors ?? []) };
  };
};

/** Writes the answer's fields that the contract names. */
export const serializerCompiler = ({ schema }: { schema?: unknown }) => {
  const write = once(() => fastJsonStringify(schema as object));
  return (data: unknown) => write()(data);
};

/** For Fastify, which otherwise loads its own compilers with its start. */
export const compilersFactory = {
  buildValidator: () => validatorCompiler,
  buildSerializer: () => serializerCompiler,
} as unknown as NonNullable<NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']>;

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
