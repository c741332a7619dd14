import { computed } from '../../schema.ts';
import type { Context, DataSource } from '../../types.ts';

/** Returns the port of the access URL, or the default port of its scheme. */
function portOf(url: string): number {
  const port = URL.canParse(url) ? new URL(url).port : '';
  return port !== '' ? Number(port) : /^https:/i.test(url) ? 443 : 80;
}

/** Returns a template variable. Real builds always set it. A manual plan may not. */
function template(name: string, { env, diagnostics }: Context): string {
  const value = env[name] ?? '';
  if (value === '' && env['CODER_WORKSPACE_BUILD_ID'])
    diagnostics.error([], 'Incomplete job', `${name} is empty although the build has an id.`);
  return value;
}

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'The workspace that is being built.',
    attributes: {
      id: computed('string', 'Id of the workspace.'),
      name: computed('string', 'Name of the workspace.'),
      transition: computed('string', 'start, stop or destroy.'),
      start_count: computed(
        'number',
        '1 while the workspace should run, else 0: a count for resources that only exist then.',
      ),
      access_url: computed('string', 'Access URL of the deployment.'),
      access_port: computed('number', 'Port of the access URL.'),
      template_id: computed('string', 'Id of the template.'),
      template_name: computed('string', 'Name of the template.'),
      template_version: computed('string', 'Name of the template version.'),
      is_prebuild: computed('bool', 'Whether the workspace waits to be claimed.'),
      is_prebuild_claim: computed('bool', 'Whether this build transfers a prebuilt workspace to its owner.'),
      prebuild_count: computed('number', '1 while the workspace waits to be claimed, else 0.'),
    },
  },
  read(_config, ctx) {
    const { env, url } = ctx;
    const transition = env['CODER_WORKSPACE_TRANSITION'] || 'start';
    const says = (name: string) => env[name]?.toLowerCase() === 'true';
    const claim = says('CODER_WORKSPACE_IS_PREBUILD_CLAIM');
    // A claimed workspace is no longer a prebuild.
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
