// The two tools that ChatGPT expects of a server, by the names and shapes of https://platform.openai.com/docs/mcp.
import { AppError } from '@ropewalk/kit/errors';
import { text, tool, uuid } from '../tool.ts';

export const search = tool({
  name: 'search',
  description:
    'Search for templates or workspaces. The query is "templates" or "workspaces", and optionally "/" and filters, ' +
    'separated by spaces. "templates/name:docker deprecated:false" filters by name, organization and deprecated. ' +
    '"workspaces/owner:ann status:running" filters by owner, template, name, organization, status, has-agent, dormant, ' +
    'outdated, last_used_before, last_used_after and param. Without filters, "workspaces" lists those of the caller.',
  args: { query: text('What to search for, such as "workspaces/owner:me".') },
  effect: 'read',
  set: 'search',
  async run({ client }, { query }) {
    const [, kind, filters = ''] = /^(templates|workspaces)(?:\/(.*))?$/s.exec(query) ?? [];
    if (kind === 'templates') {
      const templates = await client.call('GET /templates', { query: { q: filters } });
      const results = templates.map((one) => ({
        id: `template:${one.id}`,
        title: one.display_name || one.name,
        text: one.description,
        url: `${client.url}/templates/${one.organization_name}/${one.name}`,
      }));
      return { results };
    }
    if (kind === undefined)
      throw new AppError(
        'invalid',
        `Invalid query: begin it with "templates" or "workspaces", such as "workspaces/owner:me".`,
      );
    const { workspaces } = await client.call('GET /workspaces', {
      query: { q: filters || 'owner:me', include_resources: false },
    });
    const results = workspaces.map((one) => ({
      id: `workspace:${one.id}`,
      title: one.name,
      text: `Owner: ${one.owner_name}\nTemplate: ${one.template_display_name || one.template_name}\nStatus: ${one.latest_build.status}`,
      url: `${client.url}/@${one.owner_name}/${one.name}`,
    }));
    return { results };
  },
});

export const fetchTool = tool({
  name: 'fetch',
  description: 'Get a template or a workspace by the id of a search result, such as "workspace:fcb6fc42-…".',
  args: { id: text('The id of a search result.') },
  effect: 'read',
  set: 'search',
  async run({ client }, { id }) {
    const [, kind, value = ''] = /^(template|workspace):(.*)$/s.exec(id) ?? [];
    if (kind === 'template') {
      const one = await client.call('GET /templates/{template}', { params: { template: uuid('id', value) } });
      const url = `${client.url}/templates/${one.organization_name}/${one.name}`;
      return { id: one.id, title: one.display_name || one.name, text: JSON.stringify(one), url };
    }
    if (kind === undefined) throw new AppError('invalid', 'Invalid id: take one of a search result.');
    const one = await client.call('GET /workspaces/{workspace}', { params: { workspace: uuid('id', value) } });
    const url = `${client.url}/@${one.owner_name}/${one.name}`;
    return { id: one.id, title: one.name, text: JSON.stringify(one), url };
  },
});
