/** Every address of the dashboard, built in this one place. They are the upstream dashboard's, since people have bookmarks. */
import type { Template, Workspace } from '@ropewalk/contract';

const e = encodeURIComponent;

function query(values: Record<string, string | undefined>): string {
  const pairs = Object.entries(values).filter((pair): pair is [string, string] => Boolean(pair[1]));
  return pairs.length > 0 ? `?${new URLSearchParams(pairs)}` : '';
}

type WorkspaceName = Pick<Workspace, 'owner_name' | 'name'>;
type TemplateName = Pick<Template, 'organization_name' | 'name'>;

const workspace = (w: WorkspaceName) => `/@${e(w.owner_name)}/${e(w.name)}`;
const template = (t: TemplateName) => `/templates/${e(t.organization_name)}/${e(t.name)}`;
const organization = (name: string) => `/organizations/${e(name)}`;

export const paths = {
  /** Without a filter: one's own workspaces. With an empty one: all of them. */
  workspaces: (filter?: string) => (filter === '' ? '/workspaces?filter=' : `/workspaces${query({ filter })}`),
  workspace,
  workspaceBuild: (w: WorkspaceName, number: number) => `${workspace(w)}/builds/${number}`,
  workspaceSettings: (w: WorkspaceName) => `${workspace(w)}/settings`,
  workspaceParameters: (w: WorkspaceName) => `${workspace(w)}/settings/parameters`,
  workspaceSchedule: (w: WorkspaceName) => `${workspace(w)}/settings/schedule`,
  terminal: (w: WorkspaceName, agent?: string, values: { app?: string; command?: string; reconnect?: string } = {}) =>
    `${workspace(w)}${agent ? `.${e(agent)}` : ''}/terminal${query(values)}`,
  /** Served by the workspace, not a page of the dashboard. */
  pathApp: (w: WorkspaceName, agent: string, slug: string) => `${workspace(w)}.${e(agent)}/apps/${e(slug)}/`,

  /** The caller's tasks, or all that they may see. */
  tasks: (owner?: 'all') => `/tasks${query({ owner })}`,
  task: (w: WorkspaceName) => `/tasks/${e(w.owner_name)}/${e(w.name)}`,

  templates: (filter?: string) => `/templates${query({ filter })}`,
  newTemplate: (from: { exampleId?: string; fromTemplate?: string } = {}) => `/templates/new${query(from)}`,
  /** `modules`: ids, separated by commas. */
  templateBuilder: (at: { step?: string; base?: string; modules?: string } = {}) =>
    `/templates/new/builder${query(at)}`,
  starterTemplates: () => '/starter-templates',
  starterTemplate: (id: string) => `/starter-templates/${e(id)}`,
  template,
  templateDocs: (t: TemplateName) => `${template(t)}/docs`,
  templateFiles: (t: TemplateName, file?: string) => `${template(t)}/files${query({ file })}`,
  templateResources: (t: TemplateName) => `${template(t)}/resources`,
  templateVersions: (t: TemplateName) => `${template(t)}/versions`,
  templatePrebuilds: (t: TemplateName) => `${template(t)}/prebuilds`,
  templateEmbed: (t: TemplateName) => `${template(t)}/embed`,
  templateInsights: (t: TemplateName) => `${template(t)}/insights`,
  templateSettings: (t: TemplateName) => `${template(t)}/settings`,
  templateVariables: (t: TemplateName) => `${template(t)}/settings/variables`,
  templateSchedule: (t: TemplateName) => `${template(t)}/settings/schedule`,
  templatePermissions: (t: TemplateName) => `${template(t)}/settings/permissions`,
  templateVersion: (t: TemplateName, version: string, show: { compare?: string; tab?: string } = {}) =>
    `${template(t)}/versions/${e(version)}${query(show)}`,
  templateEditor: (t: TemplateName, version: string) => `${template(t)}/versions/${e(version)}/edit`,
  createWorkspace: (t: TemplateName, values: Record<string, string> = {}) => `${template(t)}/workspace${query(values)}`,

  newOrganization: () => '/organizations/new',
  organization,
  groups: (name: string) => `${organization(name)}/groups`,
  newGroup: (name: string) => `${organization(name)}/groups/create`,
  group: (name: string, group: string) => `${organization(name)}/groups/${e(group)}`,
  groupSettings: (name: string, group: string) => `${organization(name)}/groups/${e(group)}/settings`,
  idpSync: (name: string) => `${organization(name)}/idp-sync`,
  roles: (name: string) => `${organization(name)}/roles`,
  newRole: (name: string) => `${organization(name)}/roles/create`,
  role: (name: string, role: string) => `${organization(name)}/roles/${e(role)}`,
  provisioners: (name: string) => `${organization(name)}/provisioners`,
  provisionerJobs: (name: string, filter: { ids?: string; status?: string } = {}) =>
    `${organization(name)}/provisioner-jobs${query(filter)}`,
  provisionerKeys: (name: string) => `${organization(name)}/provisioner-keys`,
  organizationSettings: (name: string) => `${organization(name)}/settings`,

  deployment: (page = 'overview') => `/deployment/${page}`,
  oauth2Apps: () => '/deployment/oauth2-provider/apps',
  oauth2App: (id: string) => `/deployment/oauth2-provider/apps/${e(id)}`,
  workspaceProxies: () => '/deployment/workspace-proxies',
  users: (filter?: string) => `/deployment/users${query({ filter })}`,
  newUser: () => '/deployment/users/create',
  health: (section = 'access-url') => `/health/${section}`,

  audit: (filter?: string) => `/audit${query({ filter })}`,
  connectionLog: (filter?: string) => `/connectionlog${query({ filter })}`,

  settings: (page = 'account') => `/settings/${page}`,
  externalAuth: (provider: string) => `/external-auth/${e(provider)}`,
  /** A route of the server, not a page. It goes on to the provider. */
  connectAccount: (provider: string, redirect?: string) =>
    `/external-auth/${e(provider)}/callback${query({ redirect })}`,
  newToken: () => '/settings/tokens/new',

  apiReference: (operation?: string) => `/api-reference${operation ? `#${e(operation)}` : ''}`,
  install: () => '/install',
  icons: () => '/icons',
  login: (redirect?: string) => `/login${query({ redirect })}`,
  resetPassword: () => '/reset-password',
  setup: () => '/setup',
};
