import { Type } from 'typebox';
import { RegionsResponse, Response } from '../schema/common.ts';
import { WorkspaceProxiesResponse, WorkspaceProxy } from '../schema/deployment.ts';
import {
  CreateWorkspaceProxyRequest,
  CryptoKeysResponse,
  DeregisterWorkspaceProxyRequest,
  IssueSignedAppTokenResponse,
  IssueTokenRequest,
  PatchWorkspaceProxy,
  RedeemSignInRequest,
  RedeemSignInResponse,
  RegisterWorkspaceProxyRequest,
  RegisterWorkspaceProxyResponse,
  ReportAppStatsRequest,
  UpdateWorkspaceProxyResponse,
} from '../schema/workspace-proxies.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const tag = 'WorkspaceProxies';
/** An id or a name. `primary` is this server. */
const params = Type.Object({ workspaceproxy: Type.String() });

export const workspaceProxiesRoutes = {
  'GET /regions': route({
    tag,
    auth: 'session',
    summary: 'The regions where people open apps: this server first, then its workspace proxies.',
    responses: { 200: RegionsResponse },
  }),
  'GET /workspaceproxies': route({
    tag,
    auth: 'session',
    summary: 'This server, which is the primary region, and its workspace proxies, with their health.',
    responses: { 200: WorkspaceProxiesResponse },
  }),
  'POST /workspaceproxies': route({
    tag,
    auth: 'session',
    summary: 'Creates a workspace proxy. Only this response contains its token.',
    body: CreateWorkspaceProxyRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: UpdateWorkspaceProxyResponse },
  }),
  'GET /workspaceproxies/{workspaceproxy}': route({ tag, auth: 'session', params, responses: { 200: WorkspaceProxy } }),
  'PATCH /workspaceproxies/{workspaceproxy}': route({
    tag,
    auth: 'session',
    params,
    body: PatchWorkspaceProxy,
    unknownKeys: unknownKeys('access'),
    responses: { 200: UpdateWorkspaceProxyResponse },
  }),
  'DELETE /workspaceproxies/{workspaceproxy}': route({
    tag,
    auth: 'session',
    summary: 'Deletes a workspace proxy. Its token is invalid from then on.',
    params,
    responses: { 200: Response },
  }),
  'POST /workspaceproxies/me/register': route({
    tag,
    auth: 'proxy',
    summary: 'Registers a process of the proxy. It repeats this every 30 seconds.',
    body: RegisterWorkspaceProxyRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: RegisterWorkspaceProxyResponse },
  }),
  'POST /workspaceproxies/me/deregister': route({
    tag,
    auth: 'proxy',
    summary: 'Removes a process of the proxy that ends.',
    body: DeregisterWorkspaceProxyRequest,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
  'GET /workspaceproxies/me/crypto-keys': route({
    tag,
    auth: 'proxy',
    summary: 'The public keys that verify the tokens of POST /workspaceproxies/me/issue-signed-app-token.',
    query: Type.Object({ feature: Type.Optional(Type.String()) }),
    responses: { 200: CryptoKeysResponse },
  }),
  'POST /workspaceproxies/me/issue-signed-app-token': route({
    tag,
    auth: 'proxy',
    summary: 'Decides whether a visitor of the proxy may use an app, and signs a token for this app and this proxy.',
    body: IssueTokenRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 201: IssueSignedAppTokenResponse },
  }),
  'POST /workspaceproxies/me/redeem-sign-in': route({
    tag,
    auth: 'proxy',
    summary: 'Exchanges what a browser brought from signing in for a session, sealed for a host of the proxy.',
    body: RedeemSignInRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: RedeemSignInResponse },
  }),
  'GET /workspaceproxies/me/link': route({
    tag,
    auth: 'proxy',
    summary: 'The connection of a process of a proxy, over which it reaches agents and learns of changed rights.',
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'POST /workspaceproxies/me/app-stats': route({
    tag,
    auth: 'proxy',
    summary: 'Records the use of apps through the proxy.',
    body: ReportAppStatsRequest,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
} as const;
