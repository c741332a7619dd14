import { ownValue } from '@ropewalk/kit/own-value';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { locateOrganization } from '../find/organization.ts';
import { isUuid, NIL_UUID } from '../values/ids.ts';

/** The resource types that routes write, by the start of their paths. The first match counts. */
const TYPES: readonly (readonly [path: RegExp, type: string])[] = [
  [/^\/organizations\/\{organization\}\/members\/roles/, 'custom_role'],
  [/^\/organizations\/\{organization\}\/members\/\{user\}\/workspaces/, 'workspace'],
  [/^\/organizations\/\{organization\}\/members/, 'organization_member'],
  [/^(?:\/organizations\/\{organization\})?\/groups/, 'group'],
  [/^\/organizations\/\{organization\}\/provisionerkeys/, 'provisioner_key'],
  [/^\/organizations\/\{organization\}\/templateversions/, 'template_version'],
  [/^\/organizations\/\{organization\}\/templates/, 'template'],
  [/^\/organizations\/\{organization\}\/settings\/idpsync\/groups/, 'idp_sync_settings_group'],
  [/^\/organizations\/\{organization\}\/settings\/idpsync/, 'idp_sync_settings_role'],
  [/^\/settings\/idpsync/, 'idp_sync_settings_organization'],
  [/^\/organizations/, 'organization'],
  [/^\/users\/\{user\}\/(?:keys|sessions)/, 'api_key'],
  [/^\/users\/\{user\}\/gitsshkey/, 'git_ssh_key'],
  [/^\/users\/\{user\}\/secrets/, 'user_secret'],
  [/^\/users\/\{user\}\/convert-login/, 'convert_login'],
  [/^\/users\/\{user\}\/workspaces/, 'workspace'],
  [/^\/(?:users|external-auth)/, 'user'],
  [/^\/templateversions/, 'template_version'],
  [/^\/(?:templates|templatebuilder)/, 'template'],
  [/^\/(?:workspaces\/\{workspace\}\/(?:builds|restart)|workspacebuilds)/, 'workspace_build'],
  [/^\/tasks\/\{user\}\/\{task\}\/(?:input|send)/, 'workspace'],
  [/^\/tasks\/\{user\}\/\{task\}/, 'workspace_build'],
  [/^\/(?:workspaces|tasks)/, 'workspace'],
  [/^\/workspaceagents/, 'workspace_agent'],
  [/^\/applications/, 'workspace_app'],
  [/^\/workspaceproxies/, 'workspace_proxy'],
  [/^\/files/, 'file'],
  [/^\/appearance/, 'appearance'],
  [/^\/debug\/health/, 'health_settings'],
  [/^\/notifications\/templates/, 'notification_template'],
  [/^\/notifications/, 'notifications_settings'],
  [/^\/prebuilds/, 'prebuilds_settings'],
  [/^\/licenses/, 'license'],
  [/^\/oauth2-provider\/settings/, 'oauth2_provider_settings'],
  [/^\/oauth2-provider\/apps\/\{app\}\/secrets/, 'oauth2_provider_app_secret'],
  [/^\/oauth2/, 'oauth2_provider_app'],
];
const ACTIONS: Readonly<Record<string, string>> = { POST: 'create', PUT: 'write', PATCH: 'write', DELETE: 'delete' };

/** The type of the resource that a route writes. */
export function writtenType(path: string): string | undefined {
  return TYPES.find(([pattern]) => pattern.test(path))?.[1];
}

/**
 * Records that the server rejected a person's write with 403. The resource is the last parameter of the route that is
 * an id, or else only named.
 */
export async function auditRefusedWrite(
  ctx: Ctx,
  route: string,
  params: Readonly<Record<string, string>>,
): Promise<void> {
  const [method, path] = route.split(' ') as [string, string];
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => params[name!] ?? '');
  const place = params['organization'];
  const organizationId =
    place === undefined
      ? undefined
      : await locateOrganization(ctx, place).then(
          (found) => found.organizationId,
          () => undefined,
        );
  await audit(ctx, ctx.sql, {
    resourceType: writtenType(path) ?? 'user',
    resourceId: names.findLast((name) => isUuid(name)) ?? NIL_UUID,
    target: names.at(-1) ?? '',
    action: ownValue(ACTIONS, method) ?? 'write',
    status: 403,
    fields: { route },
    ...(organizationId ? { organizationId } : {}),
  });
}
