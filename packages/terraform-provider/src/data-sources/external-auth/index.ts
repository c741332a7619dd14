import { notEmpty } from '../../checks.ts';
import { computed, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { str } from '../../value.ts';

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'Asks the owner to sign in to another service.',
    attributes: {
      id: required('string', 'The service, as the deployment names it.', { check: notEmpty }),
      optional: optional('bool', 'Let people build without signing in.'),
      access_token: computed('string', 'Token of the owner at the service; empty when not signed in.', {
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
