import { address, longest, matching, oneOf, whole } from '../../checks.ts';
import { externalUrlProblem } from '../../go-url.ts';
import { idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';
import { isUnknown, type Obj } from '../../value.ts';

const SLUG = /^[a-z0-9](?:-?[a-z0-9])*$/;
/** An attribute that the author wrote excludes others, even if it is empty or false. */
const isWritten = (config: Obj, name: string) => {
  const value = config[name] ?? null;
  return Array.isArray(value) ? value.length > 0 : value !== null && !isUnknown(value);
};

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'A shortcut in the dashboard: a web app or a command in the workspace, or a link.',
    attributes: {
      id: idAttribute,
      agent_id: required('string', 'The id of a coder_agent.'),
      slug: required('string', 'Name in URLs: lower-case letters, digits and single hyphens between them.', {
        check: matching(SLUG, 'must be lower-case letters, digits and single hyphens between them'),
      }),
      display_name: optional('string', 'Name shown in the dashboard. Default: the slug.', { check: longest(64) }),
      icon: optional('string', 'URL of an icon.', { check: address }),
      url: optional('string', 'URL at which the agent reaches the app, or of the link.'),
      command: optional('string', 'Command to run in a web terminal.'),
      external: optional('bool', "Whether to open url on the person's own machine.", { default: false }),
      subdomain: optional('bool', 'Whether to serve the app on its own host name.'),
      share: optional('string', 'Who may open the app.', {
        default: 'owner',
        check: oneOf('owner', 'authenticated', 'public'),
      }),
      open_in: optional('string', 'Where the app opens.', {
        default: 'slim-window',
        check: oneOf('tab', 'slim-window'),
      }),
      hidden: optional('bool', 'Whether to hide the app in the dashboard.', { default: false }),
      order: optional('number', 'Position among the apps, lowest first.', { check: whole() }),
      group: optional('string', 'Group of apps that the dashboard shows together.', { check: longest(64) }),
      tooltip: optional('string', 'Markdown shown on hover.', { check: longest(2048) }),
    },
    blocks: {
      healthcheck: {
        nesting: 'set',
        maxItems: 1,
        block: {
          attributes: {
            url: required('string', 'URL that answers with a status below 500 while the app is healthy.'),
            interval: required('number', 'Seconds between two checks.', { check: whole() }),
            threshold: required('number', 'Consecutive failures after which the app is unhealthy.', { check: whole() }),
          },
        },
      },
    },
  },
  validate(_config, { diagnostics }, written) {
    const conflict = (one: string, ...others: string[]) => {
      for (const other of others)
        if (isWritten(written, one) && isWritten(written, other))
          diagnostics.error([one], 'Conflicting attributes', `Set either ${one} or ${other}, not both.`);
    };
    conflict('command', 'url', 'subdomain', 'healthcheck');
    conflict('external', 'command', 'healthcheck', 'subdomain', 'share');
  },
  plan(planned, _config, { diagnostics }) {
    const { external, url = null } = planned;
    if (external !== true || isUnknown(url)) return;
    const problem = externalUrlProblem(url === null ? '' : String(url));
    if (problem) diagnostics.error(['url'], 'Invalid url', `The url of an external app ${problem}.`);
  },
  create(state, { diagnostics }) {
    if (state['hidden'] !== true) return;
    for (const name of ['display_name', 'icon', 'order'])
      if (state[name]) diagnostics.warning([name], 'Hidden app', `${name} has no effect on a hidden app.`);
  },
};
