import { Type } from 'typebox';
import { Response, WorkspaceBuildParameter } from '../schema/common.ts';
import { LogPosition, NotEmpty, Whole } from '../schema/kit.ts';
import { ProvisionerJobLog } from '../schema/provisioners.ts';
import {
  AITasksPromptsResponse,
  CreateWorkspaceBuildRequest,
  UpdateWorkspaceBuildStateRequest,
  WorkspaceBuild,
  WorkspaceBuildTimings,
  WorkspaceBuildUpdate,
  WorkspaceResource,
} from '../schema/workspaces.ts';
import { Nothing, route } from './kit.ts';
import { dynamicParameters, unknownKeys } from './unknown-keys.ts';

export const buildsRoutes = {
  'GET /api/experimental/aitasks/prompts': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Shows the prompts of the builds that the caller may read.',
    query: Type.Object({ build_ids: Type.String({ description: 'Up to 100 ids with commas between them.' }) }),
    responses: { 200: AITasksPromptsResponse },
  }),
  'GET /api/experimental/watch-all-workspacebuilds': route({
    tag: 'Builds',
    auth: 'session',
    summary:
      'Follows the builds of all workspaces, for people who may read all. Begins with those that have not ended.',
    stream: 'websocket',
    responses: { 200: WorkspaceBuildUpdate },
  }),
  'GET /users/{user}/workspace/{workspacename}/builds/{buildnumber}': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ user: Type.String(), workspacename: Type.String(), buildnumber: Type.String() }),
    responses: { 200: WorkspaceBuild },
  }),
  'GET /workspaces/{workspace}/builds': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    query: Type.Object({
      after_id: Type.Optional(NotEmpty),
      limit: Type.Optional(Whole),
      offset: Type.Optional(Whole),
      since: Type.Optional(Type.String()),
    }),
    responses: { 200: Type.Array(WorkspaceBuild) },
  }),
  'POST /workspaces/{workspace}/builds': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspace: Type.String() }),
    body: CreateWorkspaceBuildRequest,
    unknownKeys: unknownKeys('work', {
      enable_dynamic_parameters: dynamicParameters,
    }),
    responses: { 201: WorkspaceBuild },
  }),
  'GET /workspacebuilds/{workspacebuild}': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    responses: { 200: WorkspaceBuild },
  }),
  'PATCH /workspacebuilds/{workspacebuild}/cancel': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    query: Type.Object({ expect_status: Type.Optional(Type.String()) }),
    responses: { 200: Response },
  }),
  'GET /workspacebuilds/{workspacebuild}/logs': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    query: Type.Object({
      before: Type.Optional(LogPosition),
      after: Type.Optional(LogPosition),
      follow: Type.Optional(Type.Boolean()),
    }),
    responses: { 200: Type.Array(ProvisionerJobLog) },
  }),
  'GET /workspacebuilds/{workspacebuild}/parameters': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    query: Type.Object({
      earlier: Type.Optional(
        Type.Boolean({
          description:
            'Add the values of earlier builds for parameters that this build does not have: a start keeps them.',
        }),
      ),
    }),
    responses: { 200: Type.Array(WorkspaceBuildParameter) },
  }),
  'GET /workspacebuilds/{workspacebuild}/resources': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    responses: { 200: Type.Array(WorkspaceResource) },
  }),
  'GET /workspacebuilds/{workspacebuild}/state': route({
    stream: 'bytes',
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    responses: { 200: Nothing },
  }),
  // of upstream since 2.30
  'PUT /workspacebuilds/{workspacebuild}/state': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    body: UpdateWorkspaceBuildStateRequest,
    unknownKeys: unknownKeys('work'),
    responses: { 204: Nothing },
  }),
  'GET /workspacebuilds/{workspacebuild}/timings': route({
    tag: 'Builds',
    auth: 'session',
    params: Type.Object({ workspacebuild: Type.String() }),
    responses: { 200: WorkspaceBuildTimings },
  }),
} as const;
