import { filledScript } from '@ropewalk/rules/init-scripts';
import { matching, oneOf, whole } from '../../checks.ts';
import { runningAgentToken } from '../../environment.ts';
import { withDefaults } from '../../generic.ts';
import { computed, idAttribute, type NestedBlock, optional, required } from '../../schema.ts';
import type { Context, ResourceType } from '../../types.ts';
import { blocks, isUnknown, type Obj, str } from '../../value.ts';

const percent = whole(0, 100);
const shown = (what: string, on: boolean) => optional('bool', `Show ${what}.`, { default: on });

const displayApps: NestedBlock = {
  nesting: 'set',
  maxItems: 1,
  computed: true,
  block: {
    attributes: {
      vscode: shown('VS Code Desktop', true),
      vscode_insiders: shown('VS Code Insiders', false),
      web_terminal: shown('the web terminal', true),
      port_forwarding_helper: shown('the list of ports', true),
      ssh_helper: shown('how to connect by SSH', true),
    },
  },
};

const metadata: NestedBlock = {
  nesting: 'list',
  block: {
    attributes: {
      key: required('string', 'Name of the metadata item, unique in the agent.'),
      script: required('string', 'Script that prints the value.'),
      interval: required('number', 'Seconds between two runs. 0 to run once.', { check: whole() }),
      timeout: optional('number', 'Seconds that a run may take. Default: the interval.', { check: whole() }),
      display_name: optional('string', 'Name shown in the dashboard.'),
      order: optional('number', 'Position among the metadata items, lowest first.', { check: whole() }),
    },
  },
};

const resourcesMonitoring: NestedBlock = {
  nesting: 'set',
  maxItems: 1,
  block: {
    attributes: {},
    blocks: {
      memory: {
        nesting: 'set',
        maxItems: 1,
        block: {
          attributes: {
            enabled: required('bool', 'Whether to monitor.'),
            threshold: required('number', 'Usage in percent from which to warn.', { check: percent }),
          },
        },
      },
      volume: {
        nesting: 'set',
        block: {
          attributes: {
            path: required('string', 'Absolute path of the volume.', {
              check: matching(/^\//, 'is not an absolute path'),
            }),
            enabled: required('bool', 'Whether to monitor.'),
            threshold: required('number', 'Usage in percent from which to warn.', { check: percent }),
          },
        },
      },
    },
  },
};

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'The program in a workspace that people connect to.',
    attributes: {
      id: idAttribute,
      os: required('string', 'Operating system.', { check: oneOf('linux', 'darwin', 'windows') }),
      arch: required('string', 'Processor architecture.', { check: oneOf('amd64', 'arm64', 'armv7') }),
      auth: optional('string', 'How the agent authenticates.', {
        default: 'token',
        check: oneOf('token', 'google-instance-identity', 'aws-instance-identity', 'azure-instance-identity'),
      }),
      api_key_scope: optional('string', 'What the agent may do on behalf of the owner.', {
        default: 'all',
        check: oneOf('all', 'no_user_data'),
      }),
      dir: optional('string', 'Directory in which shells start.'),
      env: optional(['map', 'string'], 'Environment variables of everything that the agent runs.'),
      connection_timeout: optional('number', 'Seconds until a silent agent counts as unhealthy. 0 for never.', {
        default: 120,
        check: whole(0),
      }),
      troubleshooting_url: optional('string', 'URL of help for an unhealthy agent.'),
      motd_file: optional('string', 'File in the workspace with the message of the day.'),
      order: optional('number', 'Position among the agents, lowest first.', { check: whole() }),
      startup_script: optional('string', 'Script to run when the agent starts.'),
      startup_script_behavior: optional('string', 'Whether startup_script blocks sign-in until it ends.', {
        default: 'non-blocking',
        check: oneOf('blocking', 'non-blocking'),
      }),
      shutdown_script: optional('string', 'Script to run when the agent stops.'),
      init_script: computed('string', 'Script that downloads and starts the agent. Run it when the machine starts.'),
      token: computed('string', "The agent's credential if auth is token. Every build renews it.", {
        sensitive: true,
      }),
    },
    blocks: { display_apps: displayApps, metadata, resources_monitoring: resourcesMonitoring },
  },

  validate(config, { diagnostics }) {
    const keys = new Set<string>();
    for (const [i, item] of blocks(config, 'metadata').entries()) {
      const key = item['key'];
      if (typeof key !== 'string') continue;
      if (keys.has(key))
        diagnostics.error(
          ['metadata', i, 'key'],
          'Duplicate key',
          `Metadata key ${JSON.stringify(key)} is used twice.`,
        );
      keys.add(key);
    }
    for (const monitoring of blocks(config, 'resources_monitoring')) {
      const paths = blocks(monitoring, 'volume').map((volume) => str(volume, 'path'));
      const twice = paths.find((path, i) => path !== '' && paths.indexOf(path) !== i);
      if (twice !== undefined)
        diagnostics.error(
          ['resources_monitoring'],
          'Duplicate volume',
          `Volume ${JSON.stringify(twice)} is listed twice.`,
        );
    }
  },

  /**
   * Each build renews the token, so older ones stop working. The id and the script stay known: whatever a template
   * derives from them (a machine with a startup script) survives stops and starts. A claim keeps the token of the agent
   * that is already running.
   */
  read(state, ctx) {
    state['token'] = newToken(state, ctx);
    state['init_script'] = initScript(state, ctx) ?? '';
  },

  create(state, ctx) {
    state['token'] = newToken(state, ctx);
    const script = initScript(state, ctx);
    state['init_script'] = script ?? '';
    if (blocks(state, 'display_apps').length === 0)
      state['display_apps'] = [withDefaults(displayApps.block, {}, false)];
    if (script !== undefined) return;
    const platform = `${str(state, 'os')} on ${str(state, 'arch')}`;
    ctx.diagnostics.warning(['arch'], 'No init script', `No agent exists for ${platform}, so init_script is empty.`);
  },
};

const newToken = (state: Obj, { env }: Context): string =>
  runningAgentToken(env, str(state, 'id')) ?? crypto.randomUUID();

/** Returns the init script. Undefined if the deployment has no agent for this system. */
function initScript(state: Obj, { env, url }: Context): string | undefined {
  const script = env[`CODER_AGENT_SCRIPT_${str(state, 'os')}_${str(state, 'arch')}`];
  const auth = isUnknown(state['auth']) ? '' : str(state, 'auth');
  return script === undefined ? undefined : filledScript(script, { url: rootUrl(url), auth });
}

/** Returns the scheme and host of the access URL with a trailing slash, the base of the scripts' addresses. */
function rootUrl(url: string): string {
  return url !== '' && URL.canParse('/', url) ? new URL('/', url).href : url;
}
