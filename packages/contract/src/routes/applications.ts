import { Type } from 'typebox';
import {
  DeleteWorkspaceAgentPortShareRequest,
  IssueReconnectingPTYSignedTokenRequest,
  IssueReconnectingPTYSignedTokenResponse,
  UpsertWorkspaceAgentPortShareRequest,
  WorkspaceAgentPortShare,
  WorkspaceAgentPortShares,
} from '../schema/applications.ts';
import { Response } from '../schema/common.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

const workspace = Type.Object({ workspace: Type.String() });

export const applicationsRoutes = {
  'GET /applications/auth-redirect': route({
    tag: 'Applications',
    // The server redirects a browser without a session to sign-in.
    auth: 'none',
    summary: "Transfers a session to an app's own host and redirects there.",
    query: Type.Object({ redirect_uri: Type.Optional(Type.String()) }),
    responses: { 307: Nothing },
  }),
  'POST /applications/reconnecting-pty-signed-token': route({
    tag: 'Enterprise',
    auth: 'session',
    body: IssueReconnectingPTYSignedTokenRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: IssueReconnectingPTYSignedTokenResponse },
  }),
  'GET /workspaces/{workspace}/port-share': route({
    tag: 'PortSharing',
    auth: 'session',
    params: workspace,
    responses: { 200: WorkspaceAgentPortShares },
  }),
  'POST /workspaces/{workspace}/port-share': route({
    tag: 'PortSharing',
    auth: 'session',
    params: workspace,
    body: UpsertWorkspaceAgentPortShareRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: WorkspaceAgentPortShare },
  }),
  'DELETE /workspaces/{workspace}/port-share': route({
    tag: 'PortSharing',
    auth: 'session',
    params: workspace,
    body: DeleteWorkspaceAgentPortShareRequest,
    unknownKeys: unknownKeys('access'),
    responses: { 200: Response },
  }),
} as const;
