import { Ajv, type Options } from 'ajv';
import type { FastifySchema, FastifySchemaCompiler } from 'fastify';

const shared: Options = {
  strict: false,
  allErrors: true,
  useDefaults: true,
  formats: {
    // the nil id is one: Go's clients send it for "none"
    uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i,
    'date-time': /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/,
  },
};
const strict = new Ajv(shared);
const coercing = new Ajv({ ...shared, coerceTypes: 'array' });

/** Texts of a path or query become numbers and booleans; a JSON body is what it says it is. */
export const validatorCompiler: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  const validate = (httpPart === 'body' ? strict : coercing).compile(schema as object);
  return (data: unknown) => (validate(data) ? true : { error: validationError(validate.errors ?? []) });
};

function validationError(validation: NonNullable<ReturnType<Ajv['compile']>['errors']>): Error {
  return Object.assign(new Error('validation failed'), { validation, statusCode: 400 });
}
