import { notEmpty } from '../../checks.ts';
import { computed, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { str } from '../../value.ts';

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'Asks the workspace owner to sign in to another service.',
    attributes: {
      id: required('string', "Id of the service in the deployment's configuration.", { check: notEmpty }),
      optional: optional('bool', 'Allow builds without signing in.'),
      access_token: computed('string', "The owner's token for the service. Empty when not signed in.", {
        sensitive: true,
      }),
    },
  },
  read(config, { env }) {
    const id = str(config, 'id');
    const token = env[`CODER_EXTERNAL_AUTH_ACCESS_TOKEN_${id}`] ?? env[`CODER_GIT_AUTH_ACCESS_TOKEN_${id}`] ?? '';
    return { ...config, access_token: token };
  },
};
