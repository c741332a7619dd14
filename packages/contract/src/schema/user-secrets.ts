import { type Static, Type } from 'typebox';
import { Line, named, Paragraph, ParameterValue, stringEnum, Timestamp, Uuid } from './kit.ts';

/** A secret of a person, without its value, which no response contains. */
export const UserSecret = named(
  'UserSecret',
  Type.Object({
    created_at: Timestamp,
    description: Type.String(),
    /** Whether workspaces get the secret. */
    enabled: Type.Boolean(),
    /** The environment variable with the value. Empty: none. */
    env_name: Type.String(),
    /** The file with the value. Empty: none. */
    file_path: Type.String(),
    id: Uuid,
    name: Type.String(),
    updated_at: Timestamp,
  }),
);
export type UserSecret = Static<typeof UserSecret>;

/** `@ropewalk/rules/user-secret` has the limits, and explains what is wrong. */
const fields = {
  description: Type.Optional(Paragraph),
  /** An enabled secret has a variable, a file, or both. Default: true. */
  enabled: Type.Optional(Type.Boolean()),
  env_name: Type.Optional(Line),
  /** Begins with `/` or `~/`. */
  file_path: Type.Optional(Paragraph),
};

export const CreateUserSecretRequest = named(
  'CreateUserSecretRequest',
  Type.Object({ ...fields, name: Line, value: ParameterValue }),
);
export type CreateUserSecretRequest = Static<typeof CreateUserSecretRequest>;

/** Absent fields stay as they are. */
export const UpdateUserSecretRequest = named(
  'UpdateUserSecretRequest',
  Type.Object({ ...fields, value: Type.Optional(ParameterValue) }),
);
export type UpdateUserSecretRequest = Static<typeof UpdateUserSecretRequest>;

export const SecretsFileFormat = named('SecretsFileFormat', stringEnum(['env', 'json', 'yaml']));

export const ImportUserSecretsRequest = named(
  'ImportUserSecretsRequest',
  Type.Object({
    content: Type.String({ maxLength: 1_048_576 }),
    format: SecretsFileFormat,
  }),
);
export type ImportUserSecretsRequest = Static<typeof ImportUserSecretsRequest>;
