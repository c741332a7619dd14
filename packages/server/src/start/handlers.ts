import type { RouteKey } from '@ropewalk/contract';
import { createIdentityTrust } from '../app/agent/identity/trust.ts';
import { createWebConnectionLog } from '../app/audit-entries/connection.ts';
import type { Services } from '../app/context/context.ts';
import type { AppTokens } from '../app/context/sealed-tokens.ts';
import { createHealth } from '../app/deployment/health.ts';
import { webpushPublicKey } from '../app/notification/webpush.ts';
import type { AppGrants } from '../app/workspace-app/grants.ts';
import type { ProxyHealth } from '../app/workspace-proxy/health.ts';
import type { ProxyKeys } from '../app/workspace-proxy/keys.ts';
import type { CspReports } from '../http/dashboard/csp-reports.ts';
import type { Handlers } from '../http/exchange.ts';
import type { InsideRequests } from '../http/inside.ts';
import { createMcpEndpoint } from '../http/mcp.ts';
import type { ProxyLinks } from '../http/proxy-link.ts';
import { agentHandlers } from '../http/routes/agents.ts';
import { applicationHandlers } from '../http/routes/applications.ts';
import { auditHandlers } from '../http/routes/audit.ts';
import { buildHandlers } from '../http/routes/builds.ts';
import { daemonHandlers } from '../http/routes/daemons.ts';
import { eventHandlers } from '../http/routes/events.ts';
import { externalAuthHandlers } from '../http/routes/external-auth.ts';
import { fileHandlers } from '../http/routes/files.ts';
import { generalHandlers } from '../http/routes/general.ts';
import { groupHandlers } from '../http/routes/groups.ts';
import { idpSyncHandlers } from '../http/routes/idp-sync.ts';
import { insightsHandlers } from '../http/routes/insights.ts';
import { instanceIdentityHandlers } from '../http/routes/instance-identity.ts';
import { keyHandlers } from '../http/routes/keys.ts';
import { mcpHandlers } from '../http/routes/mcp.ts';
import { notificationHandlers } from '../http/routes/notifications.ts';
import { oauth2Handlers } from '../http/routes/oauth2.ts';
import { organizationHandlers } from '../http/routes/organizations.ts';
import { provisionerKeyHandlers } from '../http/routes/provisioner-keys.ts';
import { provisionerHandlers } from '../http/routes/provisioners.ts';
import { sessionHandlers } from '../http/routes/session.ts';
import { signInHandlers } from '../http/routes/sign-in.ts';
import { tailnetHandlers } from '../http/routes/tailnet.ts';
import { taskHandlers } from '../http/routes/tasks.ts';
import { templateBuilderHandlers } from '../http/routes/template-builder.ts';
import { templateVersionHandlers } from '../http/routes/template-versions.ts';
import { templateHandlers } from '../http/routes/templates.ts';
import { terminalHandlers } from '../http/routes/terminal.ts';
import { userSecretHandlers } from '../http/routes/user-secrets.ts';
import { userHandlers } from '../http/routes/users.ts';
import { workspaceProxyHandlers } from '../http/routes/workspace-proxies.ts';
import { workspaceHandlers } from '../http/routes/workspaces.ts';
import type { StreamLimits } from '../http/stream-limits.ts';
import type { TunnelPaths } from '../http/tunnel-paths.ts';
import type { Profiler } from '../profiles/record.ts';
import type { Connections } from './connections.ts';
import type { SignIn } from './sign-in.ts';
import type { LateParts } from './starting.ts';

/** The parts that some handlers need besides the services. */
export interface HandlerParts {
  connections: Connections;
  signIn: SignIn;
  tokens: AppTokens;
  cspReports: CspReports;
  profiler: Profiler;
  late: LateParts;
  inside: InsideRequests;
  streams: StreamLimits;
  grants: AppGrants;
  proxyKeys: ProxyKeys;
  proxyLinks: ProxyLinks;
  tunnelPaths: TunnelPaths;
  proxyHealth: ProxyHealth;
}

/** The handler of every route of the contract. */
export async function createHandlers(services: Services, parts: HandlerParts): Promise<Handlers<RouteKey>> {
  const { connections, signIn, tokens, cspReports, profiler, late, inside, streams, proxyHealth } = parts;
  const { sessions, daemons, agents, cluster, departure, feed, installationSecret } = connections;
  const { providers, flows, limit, passcodeLimit, devices } = signIn;
  return {
    ...generalHandlers({
      health: createHealth(services, proxyHealth),
      cspReports,
      profiler,
      certificates: () => late.certificates(),
      webpushKey: await webpushPublicKey(services),
    }),
    ...eventHandlers(feed),
    ...sessionHandlers({ limit, passcodeLimit, devices }),
    ...signInHandlers({ providers, flows, tokens, limit }),
    ...userSecretHandlers,
    ...oauth2Handlers,
    ...userHandlers(limit),
    ...keyHandlers,
    ...auditHandlers,
    ...mcpHandlers(createMcpEndpoint({ agents: cluster.agents, inside, streams })),
    ...notificationHandlers,
    ...organizationHandlers,
    ...taskHandlers(cluster.agents),
    ...groupHandlers,
    ...externalAuthHandlers,
    ...fileHandlers,
    ...idpSyncHandlers,
    ...insightsHandlers,
    ...templateHandlers,
    ...templateBuilderHandlers,
    ...templateVersionHandlers,
    ...provisionerHandlers,
    ...provisionerKeyHandlers,
    ...workspaceHandlers,
    ...workspaceProxyHandlers({
      sessions,
      tokens,
      links: parts.proxyLinks,
      grants: parts.grants,
      keys: parts.proxyKeys,
      health: proxyHealth,
      recordConnection: createWebConnectionLog(services),
    }),
    ...buildHandlers,
    ...applicationHandlers({ sessions, tokens, proxyKeys: parts.proxyKeys }),
    ...agentHandlers(cluster.agents, agents, agents.writes, departure, {
      paths: parts.tunnelPaths,
      health: proxyHealth,
    }),
    ...instanceIdentityHandlers(createIdentityTrust(services)),
    ...terminalHandlers(cluster.agents),
    ...tailnetHandlers(connections.tailnet),
    ...daemonHandlers({
      sessions,
      connections: daemons,
      departure,
      installationSecret,
      isOwnSocket: (socket) => late.builtin?.socket?.owns(socket) ?? false,
    }),
  };
}
