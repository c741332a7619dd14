import type { WorkspaceProxy } from '@ropewalk/contract';
import type { Columns } from '../../lib/output.ts';

/** The columns of proxies, by upstream's names. */
export const proxyColumns = {
  id: (one) => one.id,
  name: (one) => one.name,
  'display name': (one) => one.display_name,
  'icon url': (one) => one.icon_url,
  healthy: (one) => String(one.healthy),
  url: (one) => one.path_app_url,
  'wildcard hostname': (one) => one.wildcard_hostname,
  'derp enabled': (one) => String(one.derp_enabled),
  'derp only': (one) => String(one.derp_only),
  'proxy status': (one) => one.status?.status ?? '',
  'proxy checked at': (one) => one.status?.checked_at ?? '',
  'created at': (one) => one.created_at,
  'updated at': (one) => one.updated_at,
  deleted: (one) => String(one.deleted),
  version: (one) => one.version,
} satisfies Columns<WorkspaceProxy>;

export const PROXY_COLUMNS = Object.keys(proxyColumns) as (keyof typeof proxyColumns)[];
