import type { PendingReason, ProvisionerDaemon, ProvisionerJob, ProvisionerTagDifference } from '@ropewalk/contract';
import { addedTags, differenceTexts } from '@ropewalk/rules/provisioner-tags';
import { isOutdated } from '../../util/outdated.ts';

/** Tags to show, by name. Each job and daemon has `scope` and `owner`: they say something only for a person's own. */
export function shownTags(tags: Readonly<Record<string, string>>): [name: string, value: string][] {
  return addedTags(tags).sort(([a], [b]) => a.localeCompare(b));
}

const ORDER = { offline: 0, busy: 2, idle: 3 } as const;

/** Daemons, those that need attention first: offline, another version than the server's, busy, idle. */
export function byAttention(daemons: readonly ProvisionerDaemon[], serverVersion: string | undefined) {
  const rank = (daemon: ProvisionerDaemon) => {
    const order = ORDER[daemon.status ?? 'offline'];
    return order > 0 && isOutdated(daemon, serverVersion) ? 1 : order;
  };
  return daemons.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** How a daemon's tags differ from a job's, a sentence for each difference. */
export const differences = (difference: ProvisionerTagDifference): string[] =>
  differenceTexts(difference).map((text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`);

/** What a person can do about a pending job. Undefined if waiting is enough. */
export function remedy({ reason }: Pick<PendingReason, 'reason'>): string | undefined {
  if (reason === 'no_matching_provisioners')
    return 'Start a daemon with these tags, or change the tags of the template.';
  if (reason === 'provisioners_offline') return 'Start the daemon again, and check its connection to this server.';
  if (reason === 'provisioners_busy') return 'It starts by itself. More daemons shorten the wait.';
  return undefined;
}

const KINDS = {
  workspace_build: 'Build',
  template_version_import: 'Import',
  template_version_dry_run: 'Dry run',
} as const;

/** What a job does: "Build of dev", "Import of docker". */
export function jobTitle({ type, metadata }: Pick<ProvisionerJob, 'type' | 'metadata'>): string {
  const template = metadata.template_display_name || metadata.template_name;
  const object =
    type === 'workspace_build' ? metadata.workspace_name || 'a workspace' : template || metadata.template_version_name;
  return `${KINDS[type]} of ${object}`;
}

/** The path of a job's log below /api/v2. */
export function jobLogPath({ id, type, input }: Pick<ProvisionerJob, 'id' | 'type' | 'input'>): string {
  if (type === 'workspace_build') return `/workspacebuilds/${input.workspace_build_id}/logs`;
  const version = `/templateversions/${input.template_version_id}`;
  return type === 'template_version_dry_run' ? `${version}/dry-run/${id}/logs` : `${version}/logs`;
}

export const isActive = ({ status }: Pick<ProvisionerJob, 'status'>): boolean =>
  status === 'pending' || status === 'running';

/** `terraform 1.11.4` as the name of a product with its version. */
export const engineName = (engine: string): string =>
  engine.replace(/^terraform\b/, 'Terraform').replace(/^opentofu\b/, 'OpenTofu');
