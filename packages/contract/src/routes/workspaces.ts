import { Type } from 'typebox';
import { Response, ServerSentEvent } from '../schema/common.ts';
import { Whole } from '../schema/kit.ts';
import {
  CreateWorkspaceRequest,
  PostWorkspaceUsageRequest,
  PutExtendWorkspaceRequest,
  ResolveAutostartResponse,
  RestartWorkspaceRequest,
  UpdateWorkspaceAutomaticUpdatesRequest,
  UpdateWorkspaceAutostartRequest,
  UpdateWorkspaceDormancy,
  UpdateWorkspaceRequest,
  UpdateWorkspaceTTLRequest,
  Workspace,
  WorkspaceBuild,
  WorkspaceBuildTimings,
  WorkspaceQuota,
  WorkspacesResponse,
} from '../schema/workspaces.ts';
import { Nothing, route } from './kit.ts';

export const workspacesRoutes = {
  'GET /workspace-quota/{user}': route({
    tag: 'Workspaces',
    auth: 'session',
    summary: 'Shows what a person may spend on workspaces in the default organization.',
    params: Type.Object({ user: Type.String() }),
    responses: { 200: WorkspaceQuota },
  }),
  'GET /organizations/{organization}/members/{user}/workspace-quota': route({
    tag: 'Workspaces',
    auth: 'session',
    summary: 'Shows what a person may spend on workspaces in an organization.',
    params: Type.Object({ organization: Type.String(), user: Type.String() }),
    responses: { 200: WorkspaceQuota },
  }),
  'POST /organizations/{organization}/members/{user}/workspaces': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), user: Type.String() }),
    body: CreateWorkspaceRequest,
    responses: { 201: Workspace },
  }),
  'POST /users/{user}/workspaces': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ user: Type.String() }),
    body: CreateWorkspaceRequest,
    responses: { 201: Workspace },
  }),
  'GET /users/{user}/workspace/{workspacename}': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ user: Type.String(), workspacename: Type.String() }),
    query: Type.Object({ include_deleted: Type.Optional(Type.Boolean()) }),
    responses: { 200: Workspace },
  }),
  'GET /workspaces': route({
    tag: 'Workspaces',
    auth: 'session',
    query: Type.Object({
      q: Type.Optional(Type.String()),
      limit: Type.Optional(Whole),
      offset: Type.Optional(Whole),
      include_resources: Type.Optional(
        Type.Boolean({
          description: 'False leaves out resources, agents and apps. Default: true. Not part of the original API.',
        }),
      ),
    }),
    responses: { 200: WorkspacesResponse },
  }),
  'GET /workspaces/{workspace}': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    query: Type.Object({ include_deleted: Type.Optional(Type.Boolean()) }),
    responses: { 200: Workspace },
  }),
  'PATCH /workspaces/{workspace}': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: UpdateWorkspaceRequest,
    responses: { 204: Nothing },
  }),
  'PUT /workspaces/{workspace}/autostart': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: UpdateWorkspaceAutostartRequest,
    responses: { 204: Nothing },
  }),
  'PUT /workspaces/{workspace}/autoupdates': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: UpdateWorkspaceAutomaticUpdatesRequest,
    responses: { 204: Nothing },
  }),
  'PUT /workspaces/{workspace}/dormant': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: UpdateWorkspaceDormancy,
    responses: { 200: Workspace },
  }),
  'PUT /workspaces/{workspace}/extend': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: PutExtendWorkspaceRequest,
    responses: { 200: Response },
  }),
  'PUT /workspaces/{workspace}/favorite': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    responses: { 204: Nothing },
  }),
  'DELETE /workspaces/{workspace}/favorite': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    responses: { 204: Nothing },
  }),
  'GET /workspaces/{workspace}/resolve-autostart': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    responses: { 200: ResolveAutostartResponse },
  }),
  'POST /workspaces/{workspace}/restart': route({
    tag: 'Workspaces',
    auth: 'session',
    summary:
      'Stops a workspace, and starts it when the stop has succeeded. A stopped workspace starts at once. The fields are ' +
      'those of the start. Not part of the original API.',
    params: Type.Object({ workspace: Type.String() }),
    body: RestartWorkspaceRequest,
    responses: { 201: WorkspaceBuild },
  }),
  'GET /workspaces/{workspace}/timings': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    responses: { 200: WorkspaceBuildTimings },
  }),
  'PUT /workspaces/{workspace}/ttl': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: UpdateWorkspaceTTLRequest,
    responses: { 204: Nothing },
  }),
  'POST /workspaces/{workspace}/usage': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: PostWorkspaceUsageRequest,
    responses: { 204: Nothing },
  }),
  'GET /workspaces/{workspace}/watch': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    stream: 'sse',
    responses: { 200: Response },
  }),
  'GET /workspaces/{workspace}/watch-ws': route({
    tag: 'Workspaces',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    stream: 'websocket',
    responses: { 200: ServerSentEvent },
  }),
} as const;
