// Decides for the visitors of workspace proxies. A proxy sends the visitor's session token and the app of the request. The
// rules are those of the server's own apps, and the decision depends on the visitor alone: the proxy has no rights.
import type {
  CryptoKeysResponse,
  IssueSignedAppTokenResponse,
  IssueTokenRequest,
  ReportAppStatsRequest,
} from '@ropewalk/contract';
import { AppError, isAppError } from '@ropewalk/kit';
import type { Actor } from '../../authz/actor.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import type { WebConnection } from '../audit-entries/connection.ts';
import type { Ctx } from '../context/context.ts';
import type { AppTokens } from '../context/sealed-tokens.ts';
import type { Sessions } from '../context/session.ts';
import { type AppAddress, parseAppHost, parseAppPath, parseWildcard } from '../values/app-address.ts';
import type { AppGrants } from '../workspace-app/grants.ts';
import { recordReportedUses, visitOf } from '../workspace-app/usage.ts';
import { proxyOf } from './credential.ts';
import type { ProxyGrant } from './grant-token.ts';
import type { ProxyKeys } from './keys.ts';
import { grantTerminal } from './rights.ts';
import { sessionHost, sessionToken } from './sign-in.ts';

export interface AppTokenParts {
  sessions: Pick<Sessions, 'verify'>;
  tokens: AppTokens;
  grants: Pick<AppGrants, 'ask'>;
  keys: ProxyKeys;
  recordConnection(connection: WebConnection): void;
}

const invalid = (field: string, detail: string) =>
  new AppError('invalid', 'Invalid app request.', { detail: `${field} ${detail}`, validations: [{ field, detail }] });

/**
 * Signs a token for the app and this proxy.
 * @param client the visitor
 * @throws AppError `unauthenticated` where signing in may help; `not_found` for an absent app and for one that the visitor
 * may not use; `unavailable` if the app cannot be reached; `invalid` for an app that this proxy does not serve
 */
export async function issueAppToken(
  ctx: Ctx,
  { sessions, tokens, grants, keys, recordConnection }: AppTokenParts,
  client: { ip: string; userAgent: string },
  input: IssueTokenRequest,
): Promise<IssueSignedAppTokenResponse> {
  const proxy = proxyOf(ctx);
  const address = addressOf(ctx, proxy, input);
  const actor = await visitorOf(sessions, sessionToken(tokens, sessionHost(proxy, address), input.session_token));
  const sign = (grant: ProxyGrant) => ({ signed_token_str: keys.sign(proxy.id, grant, ctx.clock.now()) });
  if (address.kind === 'terminal') return sign(await grantTerminal(ctx, actor, address));
  const { grant } = await grants.ask(actor, address);
  recordConnection(visitOf(grant, address.app, client));
  return sign(grant);
}

/** The visitor with this session. Nobody without one and if it has ended: public apps need none. */
async function visitorOf(sessions: Pick<Sessions, 'verify'>, token: string): Promise<Actor> {
  if (token === '') return { kind: 'none' };
  try {
    return (await sessions.verify(token)).actor;
  } catch (err) {
    if (isAppError(err, 'unauthenticated')) return { kind: 'none' };
    throw err;
  }
}

interface TerminalAddress {
  kind: 'terminal';
  agentId: string;
  base: string;
}

/**
 * The app of a request. Its parts name it, and its base must be the one that these parts have at the proxy, so that a grant
 * for one app is never stored for the address of another.
 */
function addressOf(ctx: Ctx, proxy: WorkspaceProxyRow, input: IssueTokenRequest): AppAddress | TerminalAddress {
  const { app_request: request, app_hostname: host = '', path_app_base_url: url = '' } = input;
  if (proxy.url === '') throw new AppError('conflict', 'The workspace proxy has not registered.');
  if (proxy.derp_only) throw new AppError('conflict', 'The workspace proxy registered as a relay only.');
  if (url !== '' && (!URL.canParse(url) || new URL(url).origin !== proxy.url))
    throw invalid('path_app_base_url', `must be ${proxy.url}, the access URL of the proxy`);
  if (host !== '' && host.toLowerCase() !== proxy.wildcard_hostname)
    throw invalid('app_hostname', "must be the proxy's wildcard_hostname");
  const { access_method: method, base_path: path, app_prefix: prefix = '' } = request;
  const { username_or_id: user = '', workspace_name_or_id: workspace = '' } = request;
  const { agent_name_or_id: agent = '', app_slug_or_port: app = '' } = request;
  if (prefix !== '') throw invalid('app_request.app_prefix', 'must be empty');
  const base = path.replace(/\/$/, '');
  if (method === 'terminal') {
    if (user !== '' || workspace !== '' || app !== '')
      throw invalid('app_request', 'of a terminal must have no user, workspace or app');
    if (base !== `/api/v2/workspaceagents/${agent}/pty`)
      throw invalid('app_request.base_path', 'must be the path of the terminal of the agent');
    return { kind: 'terminal', agentId: agent, base };
  }
  if (user.toLowerCase() === 'me') throw invalid('app_request.username_or_id', 'must not be "me"');
  const named = parseAppPath(`/@${user}/${workspace}${agent === '' ? '' : `.${agent}`}/apps/${app}`);
  if (named?.rest !== '') throw invalid('app_request', 'must name an app by user, workspace, agent and slug or port');
  if (method === 'path') {
    if (ctx.config.disablePathApps)
      throw new AppError('not_found', 'Path apps are turned off.', { detail: 'Open the app at its own host name.' });
    if (base !== named.address.base) throw invalid('app_request.base_path', `must be ${named.address.base}`);
    return named.address;
  }
  const wildcard = parseWildcard(proxy.wildcard_hostname);
  if (!wildcard) throw invalid('app_request.access_method', 'must not be "subdomain": the proxy has no wildcard host');
  const label = [app, agent, workspace, user].filter((name) => name !== '').join('--');
  const address = parseAppHost(wildcard, `${wildcard.before}${label}${wildcard.after}`);
  if (!address) throw invalid('app_request', 'must name an app whose names fit into a host name');
  return address;
}

/** Proxies verify tokens and nothing else, so there are no keys of other features. */
export function cryptoKeys(ctx: Ctx, keys: ProxyKeys, feature = ''): CryptoKeysResponse {
  proxyOf(ctx);
  if (feature === '') throw new AppError('invalid', 'Missing feature query parameter.');
  if (feature === 'workspace_apps_token') return { crypto_keys: keys.publicKeys(ctx.clock.now()) };
  // handed to upstream's proxies, which open sealed sessions with it. Here the servers open them
  if (feature === 'workspace_apps_api_key') return { crypto_keys: [] };
  throw new AppError('invalid', `Invalid feature: ${JSON.stringify(feature)}`);
}

/** Sessions that ended longer ago are not recorded: use counts when it happens. */
const RECENT_MS = 5 * 60_000;

/** Records the use of apps in the same place as that of apps at the server. */
export async function reportAppStats(ctx: Ctx, { stats }: ReportAppStatsRequest): Promise<undefined> {
  proxyOf(ctx);
  const oldest = ctx.clock.now().getTime() - RECENT_MS;
  const recent = stats.filter((report) => Date.parse(report.session_ended_at) >= oldest);
  await recordReportedUses(
    ctx,
    recent.map((report) => ({
      workspaceId: report.workspace_id,
      agentId: report.agent_id,
      slug: report.slug_or_port,
    })),
  );
}
