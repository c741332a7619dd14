import { matching, notEmpty } from '../../checks.ts';
import { sha256Hex, stableId } from '../../environment.ts';
import { computed, idAttribute, optional, required } from '../../schema.ts';
import type { DataSource } from '../../types.ts';
import { isUnknown, str } from '../../value.ts';

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'A secret of the workspace owner that the template needs.',
    attributes: {
      id: idAttribute,
      env: optional('string', 'Environment variable that contains the secret in a workspace.', {
        check: matching(/^[a-zA-Z_][a-zA-Z0-9_]*$/, 'is not a valid name of an environment variable'),
      }),
      file: optional('string', 'File that contains the secret in a workspace: absolute or below the home directory.', {
        check: matching(/^(\/|~\/)./, 'must begin with / or ~/'),
      }),
      help_message: required('string', 'Instructions for people who lack the secret.', { check: notEmpty }),
      value: computed('string', 'The secret.', { sensitive: true }),
    },
  },
  validate(config, { diagnostics }) {
    const given = ['env', 'file'].filter((name) => isUnknown(config[name]) || config[name] !== null);
    if (given.length !== 1) diagnostics.error([], 'Invalid secret', 'Set exactly one of env and file.');
  },
  read(config, { env, diagnostics }) {
    const variable = str(config, 'env');
    const value =
      env[variable ? `CODER_SECRET_ENV_${variable}` : `CODER_SECRET_FILE_${sha256Hex(str(config, 'file'))}`];
    // Only a build that starts a workspace needs the secret. Imports, stops and deletes do not.
    const needed = env['CODER_WORKSPACE_BUILD_ID'] && (env['CODER_WORKSPACE_TRANSITION'] || 'start') === 'start';
    if (value === undefined && needed) diagnostics.error([], 'Missing secret', str(config, 'help_message'));
    return { ...config, id: stableId('secret', variable, str(config, 'file')), value: value ?? '' };
  },
};
