// Whether the owner of a workspace wanted a build: who began it, and whether the owner has started the same before.

import type { Db } from '../connect.ts';
import type { BuildParameter } from '../rows.ts';
import { AUTOMATIC_REASONS } from './builds.ts';

/** Who began a build, and whether its owner has started the same before. */
export interface BuildConsent {
  /** `server`: by a schedule or a rule of the template. */
  begun_by: 'owner' | 'server' | 'other';
  /**
   * Whether the owner has started this version in this workspace, with these values. The values of ephemeral parameters
   * may be the defaults instead.
   */
  started_before: boolean;
  /** The user name of the build's initiator. */
  initiator_name: string;
  version_name: string;
}

/** A start that its owner began, among the builds `e` of a workspace, that this person owns. */
const STARTED_BY = (db: Db, owner: ReturnType<Db>) => db`
  e.transition = 'start' AND e.initiator_id = ${owner} AND e.reason <> ALL(${[...AUTOMATIC_REASONS]})`;

/** Whether the values `v` of a build of this version are those of the build `e`. */
const SAME_VALUES = (db: Db, versionId: ReturnType<Db>, values: ReturnType<Db>) => db`NOT EXISTS (
  SELECT FROM ${values} v LEFT JOIN template_version_parameters p ON p.template_version_id = ${versionId} AND p.name = v.name
  WHERE NOT coalesce(p.ephemeral AND p.default_value = v.value, false) AND NOT EXISTS (
    SELECT FROM workspace_build_parameters o
    WHERE o.workspace_build_id = e.id AND o.name = v.name AND o.value = v.value))`;

/** The columns of `BuildConsent` but the names, for the build `b` of the workspace `w`. */
export const consentColumns = (db: Db) => db`
  CASE WHEN b.reason = ANY(${[...AUTOMATIC_REASONS]}) THEN 'server' WHEN b.initiator_id = w.owner_id THEN 'owner'
    ELSE 'other' END AS begun_by,
  EXISTS (SELECT FROM workspace_builds e WHERE e.workspace_id = b.workspace_id AND e.build_number < b.build_number
    AND e.template_version_id = b.template_version_id AND ${STARTED_BY(db, db`w.owner_id`)}
    AND ${SAME_VALUES(
      db,
      db`b.template_version_id`,
      db`(SELECT name, value FROM workspace_build_parameters WHERE workspace_build_id = b.id)`,
    )}) AS started_before`;

/** Whether the owner of a workspace has started this version in it, with these values. */
export async function startedBefore(
  db: Db,
  { id, owner_id: ownerId }: { id: string; owner_id: string },
  versionId: string,
  values: readonly BuildParameter[],
): Promise<boolean> {
  const version: ReturnType<Db> = db`${versionId}::uuid`;
  const owner: ReturnType<Db> = db`${ownerId}::uuid`;
  const given: ReturnType<Db> = db`(SELECT name, value FROM
    unnest(${values.map(({ name }) => name)}::text[], ${values.map(({ value }) => value)}::text[]) AS g (name, value))`;
  const [row] = await db<{ known: boolean }[]>`SELECT EXISTS (
    SELECT FROM workspace_builds e WHERE e.workspace_id = ${id} AND e.template_version_id = ${version}
      AND ${STARTED_BY(db, owner)} AND ${SAME_VALUES(db, version, given)}) AS known`;
  return row!.known;
}

/** The consent to the build of an agent. */
export async function consentOfAgent(db: Db, agentId: string): Promise<BuildConsent | undefined> {
  const [row] = await db<BuildConsent[]>`
    SELECT ${consentColumns(db)}, i.username AS initiator_name, tv.name AS version_name
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id
    JOIN users i ON i.id = b.initiator_id JOIN template_versions tv ON tv.id = b.template_version_id
    WHERE a.id = ${agentId}`;
  return row;
}
