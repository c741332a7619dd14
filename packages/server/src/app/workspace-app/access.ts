import { AppError } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import { may, scopePermits } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { portShare, type ShareLevel } from '../../db/queries/port-shares.ts';
import {
  type AppAgent,
  type AppWorkspace,
  appsBySlug,
  appWorkspace,
  buildAgents,
} from '../../db/queries/workspace-apps.ts';
import type { Services } from '../context/context.ts';
import type { AppGrant } from '../context/sealed-tokens.ts';
import { workspaceObject } from '../find/workspace.ts';
import { type AppAddress, type AppKind, parsePort } from '../values/app-address.ts';
import { narrower } from '../values/share-level.ts';
import { GRANT_MS } from './held-grants.ts';

/**
 * Asks the database whether this actor may use the app of this address.
 * @throws AppError `unauthenticated` where signing in may help; `not_found` both for an absent app and for one that the
 * actor may not see; `unavailable` with the reason where the app is known but cannot be reached
 */
export async function grantAccess(services: Services, actor: Actor, address: AppAddress): Promise<AppGrant> {
  const { sql, clock } = services;
  // taken before anything is read: a change that is announced later invalidates this grant
  const now = clock.now().getTime();
  const notAllowed = () =>
    actor.kind === 'user'
      ? notFound()
      : new AppError('unauthenticated', 'Sign in to open this app.', {
          detail: 'This app does not exist, or it is not shared with everyone.',
        });
  const owner = address.user === 'me' && actor.kind === 'user' ? actor.username : address.user;
  const workspace = await appWorkspace(sql, owner, address.workspace);
  if (!workspace) throw notAllowed();
  const found = await findTarget(services, workspace, address);
  const level = 'error' in found ? 'owner' : found.level;
  if (!permits(services, actor, address.kind, level, workspace)) throw notAllowed();
  if ('error' in found) throw found.error;
  return {
    kind: address.kind,
    base: address.base,
    user: actor.kind === 'user' ? actor.id : '',
    key: actor.kind === 'user' ? actor.apiKeyId : '',
    owner: workspace.owner_id,
    workspace: workspace.id,
    template: workspace.template_id,
    ...found.target,
    passthru: workspace.cors_behavior === 'passthru',
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
  // of a dormant workspace, people with access see why nothing answers
  const object = workspaceObject({ ...workspace, dormant_at: null });
  if (actor.kind === 'user' && may(actor, 'application_connect', object)) {
    if (actor.id === workspace.owner_id) return true;
    // a path app runs in the dashboard's origin, so it could use the visitor's session
    if (kind !== 'path' || config.dangerousAllowPathAppSiteOwnerAccess) return true;
  }
  const effective = kind === 'path' && !config.dangerousAllowPathAppSharing ? 'owner' : level;
  if (effective === 'public') return true;
  if (actor.kind !== 'user' || !scopePermits(actor, 'application_connect', object)) return false;
  if (effective === 'authenticated') return true;
  return effective === 'organization' && actor.organizations.has(workspace.organization_id);
}

type Target = Pick<AppGrant, 'agent' | 'port' | 'https' | 'path' | 'query'>;
type Found = { target: Target; level: ShareLevel } | { error: AppError };

async function findTarget({ sql }: Services, workspace: AppWorkspace, address: AppAddress): Promise<Found> {
  if (workspace.dormant_at !== null) return { error: dormant(workspace) };
  const agents = workspace.transition === 'start' ? await buildAgents(sql, workspace.job_id) : [];
  if (agents.length === 0) return { error: withoutAgents(workspace) };
  const named = agents.filter(({ name, id }) => !address.agent || same(name, address.agent) || id === address.agent);
  if (named.length === 0) return { error: missing(`The workspace has no agent "${address.agent}".`) };
  const apps = await appsBySlug(
    sql,
    named.map(({ id }) => id),
    address.app,
  );
  if (apps.length > 1) return { error: missing('Several agents have this app. Name the agent in the address.') };
  const [app] = apps;
  if (!app) return findPort(sql, workspace, named, address);
  if (app.external) return { error: missing('This app runs outside the workspace. Open its own address.') };
  if (!app.url) return { error: missing('This app is a command. Open it in a terminal.') };
  if (!URL.canParse(app.url)) return { error: missing(`The address of this app is not a URL: ${app.url}`) };
  const url = new URL(app.url);
  const https = url.protocol === 'https:';
  const target: Target = {
    agent: app.agent_id,
    port: Number(url.port) || (https ? 443 : 80),
    https,
    path: url.pathname.replace(/\/$/, ''),
    query: url.search,
  };
  // the template limits the apps that a workspace adds by itself like its ports, also after the template changes
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
  if (!port) return { error: missing(`The workspace has no app "${address.app}".`) };
  if (address.kind === 'path') {
    return { error: missing('Ports have their own host names (--wildcard-access-url), not paths.') };
  }
  if (agents.length > 1) return { error: missing('This workspace has several agents. Name one in the address.') };
  const [agent] = agents as [AppAgent];
  const share = await portShare(sql, workspace.id, agent.name, port.port);
  return {
    target: { agent: agent.id, port: port.port, https: port.https || share?.protocol === 'https', path: '', query: '' },
    level: narrower(share?.share_level ?? 'owner', workspace.max_port_share_level),
  };
}

const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase();
const missing = (text: string) => new AppError('not_found', 'App not found.', { detail: text });

const dormant = ({ owner_name, name }: AppWorkspace) =>
  new AppError('unavailable', 'The workspace is dormant.', {
    detail: `Activate and start it with: coder start ${owner_name}/${name}`,
  });

/** Explains why no app of the workspace can be reached. */
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
    return new AppError('unavailable', 'The workspace has no agent.', {
      detail: 'Apps and ports need an agent to be reached.',
    });
  }
  if (transition === 'stop') {
    return new AppError('unavailable', running ? 'The workspace is stopping.' : 'The workspace is stopped.', {
      detail: start,
    });
  }
  return new AppError('unavailable', 'The workspace is being deleted.', {
    detail: 'Its apps are no longer available.',
  });
}
