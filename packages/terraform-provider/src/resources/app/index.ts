import { address, longest, matching, oneOf, whole } from '../../checks.ts';
import { idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';
import { isUnknown, type Obj } from '../../value.ts';

const SLUG = /^[a-z0-9](?:-?[a-z0-9])*$/;
/** What an author wrote down excludes others, even where it is empty or false. */
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
      display_name: optional('string', 'Name shown to people; the slug by default.', { check: longest(64) }),
      icon: optional('string', 'URL of an icon.', { check: address }),
      url: optional('string', 'Address that the agent reaches the app at, or of the link.'),
      command: optional('string', 'Command to run in a web terminal.'),
      external: optional('bool', 'Open url on the machine of the person instead.', { default: false }),
      subdomain: optional('bool', 'Serve the app on a host name of its own.'),
      share: optional('string', 'Who may open the app.', {
        default: 'owner',
        check: oneOf('owner', 'authenticated', 'public'),
      }),
      open_in: optional('string', 'Where the app opens.', {
        default: 'slim-window',
        check: oneOf('tab', 'slim-window'),
      }),
      hidden: optional('bool', 'Keep the app out of the dashboard.', { default: false }),
      order: optional('number', 'Position among the apps, lowest first.', { check: whole() }),
      group: optional('string', 'Apps of one group are shown together.', { check: longest(64) }),
      tooltip: optional('string', 'Markdown shown on hovering.', { check: longest(2048) }),
    },
    blocks: {
      healthcheck: {
        nesting: 'set',
        maxItems: 1,
        block: {
          attributes: {
            url: required('string', 'Answers below 500 while the app is healthy.'),
            interval: required('number', 'Seconds between two checks.', { check: whole() }),
            threshold: required('number', 'Failures in a row after which the app is unhealthy.', { check: whole() }),
          },
        },
      },
    },
  },
  validate(_config, { diagnostics }, written) {
    const conflict = (one: string, ...others: string[]) => {
      for (const other of others)
        if (isWritten(written, one) && isWritten(written, other))
          diagnostics.error([one], 'Conflicting attributes', `${one} and ${other} exclude each other.`);
    };
    conflict('command', 'url', 'subdomain', 'healthcheck');
    conflict('external', 'command', 'healthcheck', 'subdomain', 'share');
  },
  create(state, { diagnostics }) {
    if (state['hidden'] !== true) return;
    for (const name of ['display_name', 'icon', 'order'])
      if (state[name]) diagnostics.warning([name], 'Hidden app', `${name} has no effect on an app that is hidden.`);
  },
};
