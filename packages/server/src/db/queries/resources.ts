// The results of jobs: resources, the agents on them, and the agents' parts.

import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { AgentRow, AppRow, JobRow, ScriptRow, Transition } from '../rows.ts';
import { together } from '../together.ts';

export interface ResourceMetadata {
  key: string;
  value: string;
  sensitive: boolean;
}

export interface ResourceRow {
  id: string;
  job_id: string;
  transition: Transition;
  type: string;
  name: string;
  hide: boolean;
  icon: string;
  daily_cost: number;
  metadata: ResourceMetadata[];
  created_at: Date;
}

/** Where a resource is: in a workspace, or null for a template's. */
export interface ResourcePlace {
  workspace_owner_id: string | null;
  workspace_organization_id: string | null;
}

/** Finds the columns of a `ResourcePlace` for a resource `r`. */
export const RESOURCE_PLACE = (db: Db) => ({
  columns: db`w.owner_id AS workspace_owner_id, w.organization_id AS workspace_organization_id`,
  join: db`LEFT JOIN workspace_builds b ON b.job_id = r.job_id LEFT JOIN workspaces w ON w.id = b.workspace_id`,
});

export async function resourcesMade(
  db: Db,
  jobIds: string[],
  transition?: 'start' | 'stop',
): Promise<(ResourceRow & ResourcePlace)[]> {
  const place = RESOURCE_PLACE(db);
  return db<(ResourceRow & ResourcePlace)[]>`
    SELECT r.*, ${place.columns} FROM workspace_resources r ${place.join} WHERE r.job_id = ANY(${jobIds})
    ${transition ? db`AND r.transition = ${transition}` : db``} ORDER BY r.type, r.name`;
}

/** The resource in a template that stands for a machine that the template does not create. */
export const EXTERNAL_AGENT = 'coder_external_agent';

/** Whether the job of a version `v` or a build `b` made an external agent. */
export const hasExternalAgent = (db: Db, of: 'v' | 'b') => db`EXISTS (
  SELECT FROM workspace_resources e WHERE e.job_id = ${db.unsafe(of)}.job_id AND e.type = ${EXTERNAL_AGENT})`;

export interface NewResource {
  transition: Transition;
  type: string;
  name: string;
  hide: boolean;
  icon: string;
  instanceType: string | null;
  dailyCost: number;
  modulePath: string;
  metadata: ResourceMetadata[];
}

export type OwnedResource = Owned<{ resource_id: string }>;
export type OwnedAgent = Owned<{ agent_id: string }>;

/** The id of a resource, for the owner of its job. With it, what belongs to the resource can be inserted in one round trip. */
export const newResource = (_job: Owned<JobRow>): OwnedResource =>
  ({ resource_id: crypto.randomUUID() }) as OwnedResource;

export async function insertResource(
  tx: Tx,
  job: Owned<JobRow>,
  { resource_id: id }: OwnedResource,
  resource: NewResource,
): Promise<void> {
  await tx`INSERT INTO workspace_resources (id, job_id, transition, type, name, hide, icon, instance_type, daily_cost, module_path, metadata)
    VALUES (${id}, ${job.id}, ${resource.transition}, ${resource.type}, ${resource.name}, ${resource.hide}, ${resource.icon},
      ${resource.instanceType}, ${resource.dailyCost}, ${resource.modulePath}, ${tx.json(resource.metadata as never)})`;
}

export async function insertModule(
  tx: Tx,
  job: Owned<JobRow>,
  { transition, source, version, key }: { transition: string; source: string; version: string; key: string },
): Promise<void> {
  await tx`INSERT INTO workspace_modules (job_id, transition, source, version, key)
    VALUES (${job.id}, ${transition}, ${source}, ${version}, ${key})`;
}

export type NewAgent = Pick<
  AgentRow,
  | 'name'
  | 'parent_id'
  | 'auth_token'
  | 'auth_instance_id'
  | 'architecture'
  | 'operating_system'
  | 'environment_variables'
  | 'directory'
  | 'motd_file'
  | 'troubleshooting_url'
  | 'connection_timeout_seconds'
  | 'display_apps'
  | 'display_order'
  | 'api_key_scope'
> & { connect_deadline: Date | null };

/** The id of an agent, for the owner of its job. */
export const newAgent = (_resource: OwnedResource): OwnedAgent => ({ agent_id: crypto.randomUUID() }) as OwnedAgent;

export async function insertAgent(
  tx: Tx,
  resource: OwnedResource,
  { agent_id: id }: OwnedAgent,
  agent: NewAgent,
): Promise<void> {
  await tx`INSERT INTO workspace_agents ${tx({
    id,
    ...agent,
    resource_id: resource.resource_id,
    environment_variables: tx.json(agent.environment_variables) as never,
    display_apps: agent.display_apps as never,
  })}`;
}

export async function insertMonitors(
  tx: Tx,
  agent: OwnedAgent,
  monitors: readonly { path: string; enabled: boolean; threshold: number }[],
): Promise<void> {
  if (monitors.length === 0) return;
  const rows = monitors.map((monitor) => ({ agent_id: agent.agent_id, ...monitor }));
  await tx`INSERT INTO workspace_agent_monitors ${tx(rows)} ON CONFLICT DO NOTHING`;
}

export async function insertDevcontainer(
  tx: Tx,
  agent: OwnedAgent,
  container: {
    id: string;
    name: string;
    workspaceFolder: string;
    configPath: string;
    /** The agent inside that the build created. */
    inside: OwnedAgent | undefined;
  },
): Promise<void> {
  const { id, name, workspaceFolder, configPath, inside } = container;
  await tx`INSERT INTO workspace_agent_devcontainers (id, workspace_agent_id, name, workspace_folder, config_path, subagent_id)
    VALUES (${id}, ${agent.agent_id}, ${name}, ${workspaceFolder}, ${configPath}, ${inside?.agent_id ?? null})`;
}

export type NewScript = Omit<ScriptRow, 'workspace_agent_id' | 'log_source_id' | 'exit_code' | 'status'> & {
  icon: string;
  display_order: number;
};

/** Adds a script with the log source of its lines. */
export async function insertScript(tx: Tx, agent: OwnedAgent, { icon, ...script }: NewScript): Promise<void> {
  const sourceId = crypto.randomUUID();
  await together([
    tx`INSERT INTO workspace_agent_log_sources (id, workspace_agent_id, display_name, icon)
      VALUES (${sourceId}, ${agent.agent_id}, ${script.display_name}, ${icon})`,
    tx`INSERT INTO workspace_agent_scripts ${tx({
      ...script,
      waits_for: tx.json(script.waits_for),
      workspace_agent_id: agent.agent_id,
      log_source_id: sourceId,
    })}`,
  ]);
}

export interface NewMetadata {
  key: string;
  display_name: string;
  script: string;
  interval_seconds: number;
  timeout_seconds: number;
  display_order: number;
}

export async function insertMetadata(tx: Tx, agent: OwnedAgent, metadata: NewMetadata): Promise<void> {
  await tx`INSERT INTO workspace_agent_metadata ${tx({ ...metadata, workspace_agent_id: agent.agent_id })}
    ON CONFLICT DO NOTHING`;
}

export type NewApp = Omit<AppRow, 'agent_id' | 'statuses'>;

export async function insertApp(tx: Tx, agent: OwnedAgent, app: NewApp): Promise<void> {
  await tx`INSERT INTO workspace_apps ${tx({ ...app, agent_id: agent.agent_id })}`;
}

/** The ids of the agents of a job. */
export async function agentIdsOfJob(db: Db, jobId: string): Promise<string[]> {
  const agents = await db<{ id: string }[]>`
    SELECT a.id FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${jobId}`;
  return agents.map(({ id }) => id);
}

/** The one of these ids that an app already uses. */
export async function existingApp(db: Db, ids: string[]): Promise<string | undefined> {
  const [app] = await db<{ id: string }[]>`SELECT id FROM workspace_apps WHERE id = ANY(${ids})`;
  return app?.id;
}
