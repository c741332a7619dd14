import type { Change } from '@ropewalk/contract';
import type { AuthzObject } from '../../authz/authorize.ts';
import type { Sql } from '../../db/connect.ts';
import type { EventMap } from '../../db/events.ts';
import {
  type ChangedJob,
  type ChangedTemplate,
  type ChangedVersion,
  type ChangedWorkspace,
  changedJobs,
  changedTemplates,
  changedVersions,
  changedWorkspaces,
} from '../../db/queries/changes.ts';
import { groupObject } from '../find/group.ts';
import { templateObject } from '../find/template.ts';
import { workspaceObject } from '../find/workspace.ts';

/** A change as an event reports it: the feed finds the rest. */
export type Reported = ({ kind: 'workspace' | 'job'; id: string } | EventMap['object_changed']) & {
  /** Whether the permissions of the object changed, so that some may not read it any more. */
  permissions?: boolean;
};

/** A change with objects of the policy. An actor who may read one of them sees the change. */
export interface ReadableChange {
  change: Change;
  readable: AuthzObject[] | 'everyone';
  permissions: boolean;
}

/** Finds the objects that decide who sees these changes, with one query for each kind of object. Changes of unknown objects are dropped. */
export async function findReaders(sql: Sql, reported: readonly Reported[]): Promise<ReadableChange[]> {
  const idsOf = (kind: Reported['kind']) => reported.filter((each) => each.kind === kind).map(({ id }) => id);
  const load = async <Row extends { id: string }>(
    kind: Reported['kind'],
    query: (db: Sql, ids: string[]) => Promise<Row[]>,
  ): Promise<Map<string, Row>> => {
    const ids = idsOf(kind);
    return new Map((ids.length === 0 ? [] : await query(sql, ids)).map((row) => [row.id, row]));
  };
  const [workspaces, templates, versions, jobs] = await Promise.all([
    load('workspace', changedWorkspaces),
    load('template', changedTemplates),
    load('template_version', changedVersions),
    load('job', changedJobs),
  ]);
  return reported.flatMap((each): ReadableChange[] => {
    const found = (change: Change, readable: ReadableChange['readable']): ReadableChange[] => [
      { change, readable, permissions: each.permissions === true },
    ];
    switch (each.kind) {
      case 'workspace': {
        const row = workspaces.get(each.id);
        return row ? found(workspaceChange(row), [workspaceObject(row)]) : [];
      }
      case 'template': {
        const row = templates.get(each.id);
        return row ? found(templateChange(row), [templateObject(row)]) : [];
      }
      case 'template_version': {
        const row = versions.get(each.id);
        return row ? found(versionChange(row), [versionReader(row)]) : [];
      }
      case 'job': {
        const row = jobs.get(each.id);
        if (!row) return [];
        const subject = subjectChange(row);
        const known = subject && (subject.kind === 'workspace' ? workspaces : versions).has(subject.id);
        return [
          ...found(jobChange(row), [queueObject(row), ...subjectObject(row)]),
          ...(subject && !known ? found(subject, subjectObject(row)) : []),
        ];
      }
      default:
        return found(otherChange(each), otherReaders(each));
    }
  });
}

/** Without the fields that are null or undefined. */
function present(change: { [K in keyof Change]: Change[K] | null | undefined }): Change {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value != null)) as Change;
}

function workspaceChange({ id, owner_id, organization_id, template_id }: ChangedWorkspace): Change {
  return { kind: 'workspace', id, workspace_id: id, owner_id, organization_id, template_id };
}

function templateChange({ id, organization_id }: ChangedTemplate): Change {
  return { kind: 'template', id, template_id: id, organization_id };
}

function versionChange({
  id,
  template_id,
  organization_id,
}: Pick<ChangedVersion, 'id' | 'template_id' | 'organization_id'>): Change {
  return present({ kind: 'template_version', id, template_version_id: id, template_id, organization_id });
}

function versionReader(
  row: Pick<ChangedVersion, 'template_id' | 'organization_id' | 'user_acl' | 'group_acl'>,
): AuthzObject {
  const { template_id, organization_id, user_acl, group_acl } = row;
  return templateObject({ id: template_id, organization_id, user_acl: user_acl ?? {}, group_acl: group_acl ?? {} });
}

function jobChange(row: ChangedJob): Change {
  const { id, organization_id, owner_id, workspace_id, workspace_build_id, template_id, template_version_id } = row;
  const provisioner_id = row.worker_id;
  const ids = { organization_id, owner_id, workspace_id, workspace_build_id, template_id, template_version_id };
  return present({ kind: 'job', id, ...ids, provisioner_id });
}

/** A job's status is part of its build's workspace, or of the version that it imports. */
function subjectChange(row: ChangedJob): Change | undefined {
  const { organization_id, owner_id, workspace_id, template_id, template_version_id } = row;
  if (row.type === 'workspace_build' && workspace_id) {
    return present({ kind: 'workspace', id: workspace_id, workspace_id, owner_id, organization_id, template_id });
  }
  if (row.type === 'template_version_import' && template_version_id) {
    return versionChange({ ...row, id: template_version_id });
  }
  return undefined;
}

const queueObject = ({ organization_id }: ChangedJob): AuthzObject => ({
  type: 'provisioner_jobs',
  organizationId: organization_id,
});

/** What the job is for, if it is still known. */
function subjectObject(row: ChangedJob): AuthzObject[] {
  const { organization_id, owner_id, workspace_id, dormant_at } = row;
  if (row.type === 'workspace_build') {
    if (!owner_id || !workspace_id) return [];
    const acls = { user_acl: row.workspace_user_acl ?? {}, group_acl: row.workspace_group_acl ?? {} };
    return [workspaceObject({ workspace_id, owner_id, organization_id, dormant_at, ...acls })];
  }
  // a dry run belongs to the person who might create the workspace
  if (row.type === 'template_version_dry_run') {
    return [{ type: 'workspace', ownerId: row.initiator_id, organizationId: organization_id }];
  }
  return [versionReader(row)];
}

function otherChange({ kind, id, organization_id, owner_id }: EventMap['object_changed']): Change {
  return present({ kind, id, organization_id, owner_id, ...(kind === 'provisioner' ? { provisioner_id: id } : {}) });
}

function otherReaders({ kind, id, organization_id, owner_id }: EventMap['object_changed']): ReadableChange['readable'] {
  const place = organization_id ? { organizationId: organization_id } : {};
  switch (kind) {
    case 'provisioner':
      return [{ type: 'provisioner_daemon', ...place, ...(owner_id ? { ownerId: owner_id } : {}) }];
    case 'provisioner_key':
      return [{ type: 'provisioner_daemon', ...place }];
    case 'organization':
      return [{ type: 'organization', organizationId: id }];
    case 'group':
      return organization_id ? [groupObject({ id, organization_id })] : [];
    case 'organization_member':
      return [{ type: 'organization_member', ...place, ownerId: id }];
    case 'user':
      return [{ type: 'user', ownerId: id }];
    case 'deployment':
      return 'everyone';
    case 'notification':
      // of this person alone
      return owner_id ? [{ type: 'inbox_notification', ownerId: owner_id }] : [];
    default:
      return [];
  }
}
