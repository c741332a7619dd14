import { computed } from '../../schema.ts';
import type { Context, DataSource } from '../../types.ts';

/** The port of the access URL, else that of https or http. */
function portOf(url: string): number {
  const port = URL.canParse(url) ? new URL(url).port : '';
  return port !== '' ? Number(port) : /^https:/i.test(url) ? 443 : 80;
}

/** A template variable; real builds always have it, a plan by hand need not. */
function template(name: string, { env, diagnostics }: Context): string {
  const value = env[name] ?? '';
  if (value === '' && env['CODER_WORKSPACE_BUILD_ID'])
    diagnostics.error([], 'Incomplete job', `${name} is empty though the build has an id.`);
  return value;
}

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'The workspace that is being built.',
    attributes: {
      id: computed('string', 'Identity of the workspace.'),
      name: computed('string', 'Name of the workspace.'),
      transition: computed('string', 'start, stop or destroy.'),
      start_count: computed('number', '1 while the workspace is to run, else 0: a count for what lives only then.'),
      access_url: computed('string', 'Access URL of the deployment.'),
      access_port: computed('number', 'Port of the access URL.'),
      template_id: computed('string', 'Identity of the template.'),
      template_name: computed('string', 'Name of the template.'),
      template_version: computed('string', 'Name of the template version.'),
      is_prebuild: computed('bool', 'Whether the workspace waits to be claimed.'),
      is_prebuild_claim: computed('bool', 'Whether this build hands a waiting workspace to its owner.'),
      prebuild_count: computed('number', '1 while the workspace waits to be claimed, else 0.'),
    },
  },
  read(_config, ctx) {
    const { env, url } = ctx;
    const transition = env['CODER_WORKSPACE_TRANSITION'] || 'start';
    const says = (name: string) => env[name]?.toLowerCase() === 'true';
    const claim = says('CODER_WORKSPACE_IS_PREBUILD_CLAIM');
    // Once it is claimed, a workspace no longer waits.
    const prebuild = says('CODER_WORKSPACE_IS_PREBUILD') && !claim;
    return {
      id: env['CODER_WORKSPACE_ID'] || crypto.randomUUID(),
      name: env['CODER_WORKSPACE_NAME'] || 'default',
      transition,
      start_count: transition === 'start' ? 1 : 0,
      access_url: url,
      access_port: portOf(url),
      template_id: template('CODER_WORKSPACE_TEMPLATE_ID', ctx),
      template_name: template('CODER_WORKSPACE_TEMPLATE_NAME', ctx),
      template_version: template('CODER_WORKSPACE_TEMPLATE_VERSION', ctx),
      is_prebuild: prebuild,
      is_prebuild_claim: claim,
      prebuild_count: prebuild ? 1 : 0,
    };
  },
};
