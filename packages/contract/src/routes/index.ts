import type { Static, TSchema } from 'typebox';
import { agentsRoutes } from './agents.ts';
import { applicationsRoutes } from './applications.ts';
import { auditRoutes } from './audit.ts';
import { buildsRoutes } from './builds.ts';
import { deploymentRoutes } from './deployment.ts';
import { externalAuthRoutes } from './external-auth.ts';
import { filesRoutes } from './files.ts';
import { groupsRoutes } from './groups.ts';
import { idpSyncRoutes } from './idp-sync.ts';
import { insightsRoutes } from './insights.ts';
import { mcpRoutes } from './mcp.ts';
import { notificationsRoutes } from './notifications.ts';
import { oauth2Routes } from './oauth2.ts';
import { organizationsRoutes } from './organizations.ts';
import { provisionersRoutes } from './provisioners.ts';
import { tasksRoutes } from './tasks.ts';
import { templateBuilderRoutes } from './template-builder.ts';
import { templatesRoutes } from './templates.ts';
import { terminalRoutes } from './terminal.ts';
import { userSecretsRoutes } from './user-secrets.ts';
import { usersRoutes } from './users.ts';
import { workspaceProxiesRoutes } from './workspace-proxies.ts';
import { workspacesRoutes } from './workspaces.ts';

export { MCP_PATH } from './mcp.ts';

/** Every JSON route by method and path. A path is below /api/v2, except where it begins with /api. */
export const routes = {
  ...deploymentRoutes,
  ...auditRoutes,
  ...mcpRoutes,
  ...notificationsRoutes,
  ...usersRoutes,
  ...userSecretsRoutes,
  ...oauth2Routes,
  ...organizationsRoutes,
  ...groupsRoutes,
  ...idpSyncRoutes,
  ...externalAuthRoutes,
  ...filesRoutes,
  ...insightsRoutes,
  ...templatesRoutes,
  ...templateBuilderRoutes,
  ...workspacesRoutes,
  ...buildsRoutes,
  ...tasksRoutes,
  ...agentsRoutes,
  ...terminalRoutes,
  ...applicationsRoutes,
  ...provisionersRoutes,
  ...workspaceProxiesRoutes,
} as const;

export type Routes = typeof routes;
/** The method and the path of a route, such as `GET /users/{user}`. */
export type RouteKey = keyof Routes;

type Field<R, K extends string> = R extends { [P in K]: infer S extends TSchema } ? Static<S> : undefined;

export type RouteParams<K extends RouteKey> = Field<Routes[K], 'params'>;
export type RouteQuery<K extends RouteKey> = Field<Routes[K], 'query'>;
export type RouteBody<K extends RouteKey> = Field<Routes[K], 'body'>;

type Success = 200 | 201 | 202 | 204;
type AnswerOf<S> = S extends TSchema ? Static<S> : undefined;
type JsonAnswer<K extends RouteKey> = {
  [C in keyof Routes[K]['responses'] & Success]: AnswerOf<Routes[K]['responses'][C]>;
}[keyof Routes[K]['responses'] & Success];

/** The body of a successful answer. Undefined without a body or for a stream. */
export type RouteAnswer<K extends RouteKey> = Routes[K] extends { stream: 'bytes' }
  ? Uint8Array
  : Routes[K] extends { stream: 'websocket' | 'sse' | 'lines' }
    ? // biome-ignore lint/suspicious/noConfusingVoidType: a handler that streams returns nothing
      void
    : JsonAnswer<K>;

export type { Method, RouteAuth, RouteDef } from './kit.ts';
export { Nothing } from './kit.ts';
