import { ORGANIZATION_RESOURCES, PERMISSIONS } from '@ropewalk/contract/permissions';
import { queryOptions, useQueries, useQuery } from '@tanstack/react-query';
import { call } from './client.ts';

/** Asks about all organizations of the person: whether they may do it in one of them. */
const ANY_ORGANIZATION = { any_org: true } as const;
/** Asks about an object that the person owns. */
const OWN = { owner_id: 'me' } as const;

/** What the dashboard asks about the signed-in person, for the navigation and the actions of pages. */
const SITE = {
  createOrganization: ['organization', 'create'],
  createUser: ['user', 'create'],
  readUsers: ['user', 'read'],
  updateUsers: ['user', 'update'],
  createTemplate: ['template', 'create'],
  updateTemplates: ['template', 'update'],
  createOwnWorkspace: ['workspace', 'create', { ...OWN, ...ANY_ORGANIZATION }],
  readDeploymentConfig: ['deployment_config', 'read'],
  updateDeploymentConfig: ['deployment_config', 'update'],
  readDeploymentStats: ['deployment_stats', 'read'],
  readHealth: ['debug_info', 'read'],
  readAuditLog: ['audit_log', 'read', ANY_ORGANIZATION],
  createOAuth2Apps: ['oauth2_app', 'create'],
  readProxies: ['workspace_proxy', 'read'],
  createProxies: ['workspace_proxy', 'create'],
  updateProxies: ['workspace_proxy', 'update'],
  deleteProxies: ['workspace_proxy', 'delete'],
  updateIdpSync: ['idpsync_settings', 'update'],
  // members may read the names of other members, to share workspaces, but do not administer them
  readMembersAnywhere: ['group_member', 'read', ANY_ORGANIZATION],
} as const;

const ORGANIZATION = {
  createTemplate: ['template', 'create'],
  readTemplates: ['template', 'read'],
  updateTemplates: ['template', 'update'],
  useTemplates: ['template', 'use'],
  createWorkspace: ['workspace', 'create'],
  createOwnWorkspace: ['workspace', 'create', OWN],
  updateWorkspaces: ['workspace', 'update'],
  readMembers: ['group_member', 'read'],
  updateMembers: ['organization_member', 'update'],
  addMembers: ['organization_member', 'create'],
  removeMembers: ['organization_member', 'delete'],
  assignRoles: ['assign_org_role', 'assign'],
  createRoles: ['assign_org_role', 'create'],
  updateRoles: ['assign_org_role', 'update'],
  deleteRoles: ['assign_org_role', 'delete'],
  readGroups: ['group_member', 'read'],
  createGroups: ['group', 'create'],
  updateGroups: ['group', 'update'],
  deleteGroups: ['group', 'delete'],
  readProvisioners: ['provisioner_daemon', 'read'],
  createProvisionerKeys: ['provisioner_daemon', 'create'],
  deleteProvisionerKeys: ['provisioner_daemon', 'delete'],
  readJobs: ['provisioner_jobs', 'read'],
  updateIdpSync: ['idpsync_settings', 'update'],
  updateOrganization: ['organization', 'update'],
  deleteOrganization: ['organization', 'delete'],
  viewInsights: ['template', 'view_insights'],
} as const;

export type SitePermissions = Record<keyof typeof SITE, boolean>;
export type OrganizationPermissions = Record<keyof typeof ORGANIZATION, boolean>;

type Question = {
  object: {
    resource_type: string;
    organization_id?: string;
    owner_id?: string;
    resource_id?: string;
    any_org?: boolean;
  };
  action: string;
};

async function ask<K extends string>(questions: Record<K, Question>): Promise<Record<K, boolean>> {
  return (await call('POST /authcheck', { body: { checks: questions as never } })) as Record<K, boolean>;
}

function questions<K extends string>(
  table: Record<K, readonly [type: string, action: string, which?: Partial<typeof OWN & typeof ANY_ORGANIZATION>]>,
  organizationId?: string,
): Record<K, Question> {
  const entries = Object.entries(table) as [K, (typeof table)[K]][];
  return Object.fromEntries(
    entries.map(([name, [resource_type, action, which]]) => [
      name,
      { object: { resource_type, ...(organizationId ? { organization_id: organizationId } : {}), ...which }, action },
    ]),
  ) as Record<K, Question>;
}

/** Roles change rarely, and the event stream reports it: `user` and `organization` changes. */
const watches = [{ kind: 'user' }, { kind: 'organization' }] as const;

export const sitePermissions = queryOptions({
  queryKey: ['permissions', 'site'],
  queryFn: () => ask(questions(SITE)),
  meta: { watches },
});

export const organizationPermissions = (organizationId: string) =>
  queryOptions({
    queryKey: ['permissions', 'organization', organizationId],
    queryFn: () => ask(questions(ORGANIZATION, organizationId)),
    meta: { watches },
    enabled: organizationId !== '',
  });

/** The permissions of an organization's roles that the person has and may give to others, as `resource:action`. */
export const grantablePermissions = (organizationId: string) =>
  queryOptions({
    queryKey: ['permissions', 'grantable', organizationId],
    queryFn: async () => {
      const pairs = ORGANIZATION_RESOURCES.flatMap((type) =>
        PERMISSIONS[type].map((action) => [`${type}:${action}`, [type, action]] as const),
      );
      const answers = await ask(questions(Object.fromEntries(pairs), organizationId));
      return new Set<string>(pairs.flatMap(([name]) => (answers[name] ? [name] : [])));
    },
    meta: { watches },
  });

const NONE = {} as Partial<SitePermissions>;

/** What the person may do anywhere. All false until known. */
export const useSitePermissions = (): Partial<SitePermissions> => useQuery(sitePermissions).data ?? NONE;

/** What the person may do in an organization. All false until known. */
export const useOrganizationPermissions = (organizationId: string): Partial<OrganizationPermissions> =>
  useQuery(organizationPermissions(organizationId)).data ?? NONE;

interface PlacedWorkspace {
  id: string;
  owner_id: string;
  organization_id: string;
  is_prebuild: boolean;
  shared_with?: readonly unknown[];
}

function askAboutWorkspace(object: Question['object']) {
  return ask({
    update: { object, action: 'update' },
    delete: { object, action: 'delete' },
    start: { object, action: 'start' },
    stop: { object, action: 'stop' },
    ssh: { object, action: 'ssh' },
    apps: { object, action: 'application_connect' },
    share: { object, action: 'share' },
  });
}

export type WorkspacePermissions = Awaited<ReturnType<typeof askAboutWorkspace>>;

/** What the person may do with one workspace. */
export const workspacePermissions = ({
  id,
  owner_id,
  organization_id,
}: Pick<PlacedWorkspace, 'id' | 'owner_id' | 'organization_id'>) =>
  queryOptions({
    queryKey: ['permissions', 'workspace', id],
    queryFn: () => askAboutWorkspace({ resource_type: 'workspace', resource_id: id, owner_id, organization_id }),
    meta: { watches: [...watches, { kind: 'workspace', id }] },
  });

/** Whether the permissions depend on the people and groups that a workspace of another person is shared with. */
const isShared = ({ owner_id, shared_with = [] }: PlacedWorkspace, personId: string): boolean =>
  owner_id !== personId && shared_with.length > 0;

/** What the permissions for a workspace depend on: its organization, and whether it is the person's own, unclaimed or shared. */
const placeOf = (workspace: PlacedWorkspace, personId: string): string =>
  isShared(workspace, personId)
    ? workspace.id
    : `${workspace.organization_id} ${workspace.is_prebuild ? 'unclaimed' : workspace.owner_id === personId ? 'own' : 'other'}`;

/** What the person may do with each of many workspaces, with one question for all that are alike. Undefined until known. */
export function useWorkspacesPermissions(
  workspaces: readonly PlacedWorkspace[],
  personId: string,
): (workspace: PlacedWorkspace) => WorkspacePermissions | undefined {
  const examples = new Map(workspaces.map((workspace) => [placeOf(workspace, personId), workspace]));
  const results = useQueries({
    queries: [...examples].map(([place, workspace]) => ({
      queryKey: ['permissions', 'workspaces', place],
      queryFn: () => {
        const { id, owner_id, organization_id } = workspace;
        const named = isShared(workspace, personId) ? { resource_id: id } : {};
        return askAboutWorkspace({ resource_type: 'workspace', owner_id, organization_id, ...named });
      },
      meta: { watches },
    })),
  });
  const known = new Map([...examples.keys()].map((place, at) => [place, results[at]?.data]));
  return (workspace) => known.get(placeOf(workspace, personId));
}

/** What the person may do with one template. */
export const templatePermissions = (templateId: string) =>
  queryOptions({
    queryKey: ['permissions', 'template', templateId],
    queryFn: () => {
      const object = { resource_type: 'template', resource_id: templateId };
      return ask({
        update: { object, action: 'update' },
        delete: { object, action: 'delete' },
        viewInsights: { object, action: 'view_insights' },
      });
    },
    meta: { watches: [...watches, { kind: 'template' as const, id: templateId }] },
  });

/** The checks that the server answers in one request. */
const CHECKS_PER_REQUEST = 100;

/** Those of the templates that the person may use, by id. */
export const usableTemplates = (templateIds: readonly string[]) =>
  queryOptions({
    queryKey: ['permissions', 'use', templateIds],
    queryFn: async () => {
      const usable = new Set<string>();
      for (let at = 0; at < templateIds.length; at += CHECKS_PER_REQUEST) {
        const some = templateIds.slice(at, at + CHECKS_PER_REQUEST);
        const answers = await ask(
          Object.fromEntries(
            some.map((id) => [id, { object: { resource_type: 'template', resource_id: id }, action: 'use' }]),
          ),
        );
        for (const id of some) if (answers[id]) usable.add(id);
      }
      return usable;
    },
    meta: { watches: [...watches, { kind: 'template' as const }] },
    enabled: templateIds.length > 0,
  });
