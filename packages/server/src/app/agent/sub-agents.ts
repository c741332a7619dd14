import { createHash } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { ShareLevel } from '../../db/queries/port-shares.ts';
import type { NewApp } from '../../db/queries/resources.ts';
import {
  deleteSubAgentRow,
  insertSubAgent,
  insertSubAgentApp,
  lockAgentsOfBuild,
  purgeSubAgents,
  type SubAgent,
  subAgentsOf,
  takeSubAgent,
  widestShareLevel,
} from '../../db/queries/sub-agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { imageAddress } from '../values/image-address.ts';
import { narrower } from '../values/share-level.ts';

const NAME = /^[a-z0-9](-?[a-z0-9])*$/i;
const SLUG = /^[a-z0-9](-?[a-z0-9])*$/;
/** The maximum number of sub-agents of one agent. */
const MAX_SUB_AGENTS = 20;
const MAX_APPS = 20;
/** The maximum number of characters in all texts of a sub-agent: every list that shows the workspace contains them. */
const LONGEST_SUB_AGENT = 65_536;

export interface SubAgentApp {
  slug: string;
  displayName: string;
  icon: string;
  command: string;
  url: string;
  external: boolean;
  subdomain: boolean;
  hidden: boolean;
  sharing: ShareLevel;
  openIn: 'slim-window' | 'tab';
  group: string;
  order: number;
  healthcheck?: { url: string; interval: number; threshold: number };
}

export interface SubAgentInput {
  /** The id of a sub-agent that the build created. Absent: a new one. */
  id?: string;
  name: string;
  directory: string;
  architecture: string;
  operatingSystem: string;
  displayApps: string[];
  apps: SubAgentApp[];
}

export interface AppFailure {
  index: number;
  field?: string;
  error: string;
}

/** A slug that no other agent of the workspace uses. */
export function subAgentSlug(agentName: string, slug: string): string {
  const hash = createHash('sha256').update(`${agentName}/${slug}`).digest();
  return `${base32hex(hash).slice(0, 8)}-${slug}`;
}

const DIGITS = '0123456789abcdefghijklmnopqrstuv';

function base32hex(bytes: Buffer): string {
  let bits = 0;
  let value = 0;
  let text = '';
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xffff;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += DIGITS[(value >> (bits - 5)) & 31];
  }
  return bits > 0 ? text + DIGITS[(value << (5 - bits)) & 31] : text;
}

/**
 * Creates a sub-agent, for a dev container for example. Also returns the errors of its apps.
 * @throws AppError `invalid` for its name, `conflict` if the name is taken, `forbidden` below a sub-agent
 */
export async function createSubAgent(
  services: Services,
  parent: ConnectedAgent<AgentIdentity>,
  input: SubAgentInput,
): Promise<{ agent: SubAgent; failures: AppFailure[] }> {
  const { sql, events } = services;
  const { name, id } = input;
  if (parent.parent_id) throw new AppError('forbidden', 'A sub-agent cannot have sub-agents.');
  if (id !== undefined) return { agent: await takeOver(services, parent, id, input), failures: [] };
  if (!NAME.test(name) || name.length > 64) {
    throw new AppError(
      'invalid',
      `Invalid agent name ${JSON.stringify(name)}: use letters, digits and single hyphens.`,
    );
  }
  if (JSON.stringify(input).length > LONGEST_SUB_AGENT) {
    throw new AppError(
      'invalid',
      `The description of a sub-agent and its apps can have at most ${LONGEST_SUB_AGENT} characters.`,
    );
  }
  const made = await sql.begin(async (tx) => {
    const others = await lockAgentsOfBuild(tx, parent);
    if (others.some((other) => other.name.toLowerCase() === name.toLowerCase()))
      throw new AppError('conflict', `The workspace already has an agent ${JSON.stringify(name)}.`);
    if (others.filter((other) => other.parent_id === parent.id).length >= MAX_SUB_AGENTS)
      throw new AppError('conflict', `An agent can have at most ${MAX_SUB_AGENTS} sub-agents.`);
    await purgeSubAgents(tx, parent);
    const agent = await insertSubAgent(tx, parent, {
      id: crypto.randomUUID(),
      name,
      token: crypto.randomUUID(),
      architecture: input.architecture,
      operating_system: input.operatingSystem,
      directory: input.directory,
      display_apps: input.displayApps,
    });
    const widest = (await widestShareLevel(tx, parent)) ?? 'owner';
    const failures: AppFailure[] = [];
    for (const [index, app] of input.apps.entries()) {
      if (narrower(app.sharing, widest) !== app.sharing) {
        const error = `The template allows apps to be shared with "${widest}" at most, not with "${app.sharing}".`;
        failures.push({ index, field: 'share', error });
      } else if (index >= MAX_APPS) failures.push({ index, error: `An agent can have at most ${MAX_APPS} apps.` });
      else if (!SLUG.test(app.slug)) {
        const error = `Invalid app slug ${JSON.stringify(app.slug)}: use lower-case letters, digits and single hyphens.`;
        failures.push({ index, field: 'slug', error });
      } else {
        const isNew = await insertSubAgentApp(tx, agent, appRow(agent, app));
        if (!isNew)
          failures.push({ index, field: 'slug', error: `App slug ${JSON.stringify(app.slug)} is used twice.` });
      }
    }
    return { agent, failures };
  });
  events.publishSoon('workspace_changed', { workspace_id: parent.workspace_id, owner_id: parent.owner_id });
  return made;
}

/** The apps of a sub-agent that the build created are those of the template, so those of the request are ignored. */
async function takeOver(
  { sql, events }: Services,
  parent: ConnectedAgent<AgentIdentity>,
  id: string,
  { directory, displayApps }: SubAgentInput,
): Promise<SubAgent> {
  if (directory.length > LONGEST_SUB_AGENT)
    throw new AppError('invalid', `The directory of a sub-agent can have at most ${LONGEST_SUB_AGENT} characters.`);
  const agent = await sql.begin((tx) => takeSubAgent(tx, parent, id, { directory, display_apps: displayApps }));
  if (!agent) throw new AppError('not_found', `The agent has no sub-agent with the ID ${JSON.stringify(id)}.`);
  events.publishSoon('workspace_changed', { workspace_id: parent.workspace_id, owner_id: parent.owner_id });
  return agent;
}

function appRow(agent: SubAgent, app: SubAgentApp): NewApp {
  const { url = '', interval = 0, threshold = 0 } = app.healthcheck ?? {};
  return {
    id: crypto.randomUUID(),
    slug: subAgentSlug(agent.name, app.slug),
    display_name: app.displayName,
    icon: imageAddress(app.icon),
    command: app.command || null,
    url: app.url || null,
    external: app.external,
    subdomain: app.subdomain,
    sharing_level: app.sharing,
    hidden: app.hidden,
    open_in: app.openIn,
    display_group: app.group,
    tooltip: '',
    display_order: app.order,
    healthcheck_url: url,
    healthcheck_interval: interval,
    healthcheck_threshold: threshold,
    health: url ? 'initializing' : 'disabled',
  };
}

export async function listSubAgents({ sql }: Services, parent: ConnectedAgent<AgentIdentity>): Promise<SubAgent[]> {
  return subAgentsOf(sql, parent);
}

/**
 * Deletes a sub-agent of this agent. Its token is rejected from now on.
 * @throws AppError `not_found` for any other agent
 */
export async function deleteSubAgent(
  { sql, events }: Services,
  parent: ConnectedAgent<AgentIdentity>,
  id: string,
): Promise<void> {
  if (!(await deleteSubAgentRow(sql, parent, id)))
    throw new AppError('not_found', `The agent has no sub-agent with the ID ${JSON.stringify(id)}.`);
  events.publishSoon('workspace_changed', {
    workspace_id: parent.workspace_id,
    owner_id: parent.owner_id,
    agents_outdated: true,
  });
}
