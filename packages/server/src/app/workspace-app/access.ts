import { AppError } from '@platform/kit';
import type { Actor } from '../../authz/actor.ts';
import { may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { portShare, type ShareLevel } from '../../db/queries/port-shares.ts';
import {
  type AppAgent,
  type AppWorkspace,
  appsBySlug,
  appWorkspace,
  buildAgents,
} from '../../db/queries/workspace-apps.ts';
import type { Services } from '../context.ts';
import { workspaceObject } from '../workspace/find.ts';
import { type AppAddress, type AppKind, parsePort } from './address.ts';
import { narrower } from './share-level.ts';

/** That somebody may use an app, for a moment. It holds all that the proxy needs to know. */
export interface AppGrant {
  kind: AppKind;
  base: string;
  /** Who; empty for whoever comes to a public app. */
  user: string;
  key: string;
  owner: string;
  workspace: string;
  template: string;
  agent: string;
  port: number;
  https: boolean;
  /** In front of each path, without a slash at its end. */
  path: string;
  /** The query that the app's front page is opened with, with its `?`; or empty. */
  query: string;
  /** Ms since 1970. */
  issued: number;
  expires: number;
}

export const GRANT_MS = 60_000;

/**
 * Whether this actor may use the app of this address, asking the database.
 * @throws AppError `unauthenticated` where signing in may help; `not_found` alike for what is absent and what is not to
 * be known; `unavailable` with the reason where the app is known but can't be reached.
 */
export async function grantAccess(services: Services, actor: Actor, address: AppAddress): Promise<AppGrant> {
  const { sql, clock } = services;
  // before anything is read: a change that is told of later makes it too old
  const now = clock.now().getTime();
  const refuse = () =>
    actor.kind === 'user'
      ? notFound()
      : new AppError('unauthenticated', 'Sign in to open this app.', {
          detail: 'This app does not exist, or it is not shared with everybody.',
        });
  const owner = address.user === 'me' && actor.kind === 'user' ? actor.username : address.user;
  const workspace = await appWorkspace(sql, owner, address.workspace);
  if (!workspace) throw refuse();
  const found = await findTarget(services, workspace, address);
  const level = 'refusal' in found ? 'owner' : found.level;
  if (!permits(services, actor, address.kind, level, workspace)) throw refuse();
  if ('refusal' in found) throw found.refusal;
  return {
    kind: address.kind,
    base: address.base,
    user: actor.kind === 'user' ? actor.id : '',
    key: actor.kind === 'user' ? actor.apiKeyId : '',
    owner: workspace.owner_id,
    workspace: workspace.id,
    template: workspace.template_id,
    ...found.target,
    issued: now,
    expires: now + GRANT_MS,
  };
}

function permits(
  { config }: Services,
  actor: Actor,
  kind: AppKind,
  level: ShareLevel,
  workspace: AppWorkspace,
): boolean {
  if (actor.kind === 'user' && may(actor, 'application_connect', workspaceObject(workspace))) {
    if (actor.id === workspace.owner_id) return true;
    // a path app runs in the dashboard's origin: its visitor's session is at its mercy
    if (kind !== 'path' || config.dangerousAllowPathAppSiteOwnerAccess) return true;
  }
  const effective = kind === 'path' && !config.dangerousAllowPathAppSharing ? 'owner' : level;
  if (effective === 'public') return true;
  if (actor.kind !== 'user') return false;
  if (effective === 'authenticated') return true;
  return effective === 'organization' && actor.organizations.has(workspace.organization_id);
}

type Target = Pick<AppGrant, 'agent' | 'port' | 'https' | 'path' | 'query'>;
type Found = { target: Target; level: ShareLevel } | { refusal: AppError };

async function findTarget({ sql }: Services, workspace: AppWorkspace, address: AppAddress): Promise<Found> {
  const agents = workspace.transition === 'start' ? await buildAgents(sql, workspace.job_id) : [];
  if (agents.length === 0) return { refusal: withoutAgents(workspace) };
  const named = agents.filter(({ name, id }) => !address.agent || same(name, address.agent) || id === address.agent);
  if (named.length === 0) return { refusal: missing(`There is no agent "${address.agent}" in this workspace.`) };
  const apps = await appsBySlug(
    sql,
    named.map(({ id }) => id),
    address.app,
  );
  if (apps.length > 1) return { refusal: missing('Several agents have this app: name the agent in the address.') };
  const [app] = apps;
  if (!app) return findPort(sql, workspace, named, address);
  if (app.external) return { refusal: missing('This app is outside of the workspace: open its own address.') };
  if (!app.url) return { refusal: missing('This app is a command: it is opened in a terminal.') };
  if (!URL.canParse(app.url)) return { refusal: missing(`The address of this app is not a URL: ${app.url}`) };
  const url = new URL(app.url);
  const https = url.protocol === 'https:';
  const target: Target = {
    agent: app.agent_id,
    port: Number(url.port) || (https ? 443 : 80),
    https,
    path: url.pathname.replace(/\/$/, ''),
    query: url.search,
  };
  // what a workspace opens by itself is bounded as its ports are, also after the template was changed
  const level = app.of_sub_agent ? narrower(app.sharing_level, workspace.max_port_share_level) : app.sharing_level;
  return { target, level };
}

async function findPort(
  sql: Services['sql'],
  workspace: AppWorkspace,
  agents: AppAgent[],
  address: AppAddress,
): Promise<Found> {
  const port = parsePort(address.app);
  if (!port) return { refusal: missing(`There is no app "${address.app}" in this workspace.`) };
  if (address.kind === 'path') {
    return { refusal: missing('Ports are opened by host names of their own (--wildcard-access-url), not by paths.') };
  }
  if (agents.length > 1) return { refusal: missing('This workspace has several agents: name one in the address.') };
  const [agent] = agents as [AppAgent];
  const share = await portShare(sql, workspace.id, agent.name, port.port);
  return {
    target: { agent: agent.id, port: port.port, https: port.https || share?.protocol === 'https', path: '', query: '' },
    level: narrower(share?.share_level ?? 'owner', workspace.max_port_share_level),
  };
}

const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();
const missing = (text: string) => new AppError('not_found', 'There is no such app.', { detail: text });

/** Says why nothing runs there. */
function withoutAgents({ transition, job_status, owner_name, name }: AppWorkspace): AppError {
  const start = `Start it with: coder start ${owner_name}/${name}`;
  const running = job_status === 'pending' || job_status === 'running';
  if (transition === 'start') {
    if (running) return new AppError('unavailable', 'The workspace is starting.', { detail: 'Try again in a moment.' });
    if (job_status !== 'succeeded') {
      return new AppError('unavailable', 'The workspace did not start.', {
        detail: `Its last build ended as ${job_status}. See its log with: coder show ${owner_name}/${name}`,
      });
    }
    return new AppError('unavailable', 'The workspace has no agent.', { detail: 'Nothing in it can be reached.' });
  }
  if (transition === 'stop') {
    return new AppError('unavailable', running ? 'The workspace is stopping.' : 'The workspace is stopped.', {
      detail: start,
    });
  }
  return new AppError('unavailable', 'The workspace is being deleted.', { detail: 'Its apps end with it.' });
}
