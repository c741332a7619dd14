import { externalAgentCredentials } from '../../app/agent/external.ts';
import { findWorkspace } from '../../app/find/workspace.ts';
import { getQuota } from '../../app/quota/read.ts';
import { getBuildByNumber, getBuilds, getWorkspaceTimings } from '../../app/workspace/build/read.ts';
import { requestBuild, restartWorkspace } from '../../app/workspace/build/restart.ts';
import { createWorkspace } from '../../app/workspace/create.ts';
import { getWorkspace, getWorkspaceByName, listWorkspaces } from '../../app/workspace/list.ts';
import { resolveAutostart } from '../../app/workspace/resolve-autostart.ts';
import { extend, setAutomaticUpdates, setAutostart, setTtl } from '../../app/workspace/schedule.ts';
import { clearAcl, setSharingSettings, sharingSettings, updateAcl, workspaceAcl } from '../../app/workspace/sharing.ts';
import { noteUsage, renameWorkspace, setDormancy, setFavorite } from '../../app/workspace/update.ts';
import { workspaceSource } from '../../app/workspace/watch.ts';
import { defineHandlers } from '../exchange.ts';
import { followAsEvents, followAsMessages } from '../follow.ts';

export const workspaceHandlers = defineHandlers({
  'GET /workspace-quota/{user}': (ctx, { params }) => getQuota(ctx, 'default', params.user),
  'GET /organizations/{organization}/members/{user}/workspace-quota': (ctx, { params }) =>
    getQuota(ctx, params.organization, params.user),
  'POST /users/{user}/workspaces': (ctx, { params, body }) => createWorkspace(ctx, params.user, body),
  'POST /organizations/{organization}/members/{user}/workspaces': (ctx, { params, body }) =>
    createWorkspace(ctx, params.user, body, params.organization),
  'GET /users/{user}/workspace/{workspacename}': (ctx, { params, query }) =>
    getWorkspaceByName(ctx, params.user, params.workspacename, query.include_deleted ?? false),
  'GET /users/{user}/workspace/{workspacename}/builds/{buildnumber}': (ctx, { params }) =>
    getBuildByNumber(ctx, params.user, params.workspacename, params.buildnumber),
  'GET /workspaces': (ctx, { query }) => listWorkspaces(ctx, query),
  'GET /workspaces/{workspace}': (ctx, { params, query }) =>
    getWorkspace(ctx, params.workspace, query.include_deleted ?? false),
  'PATCH /workspaces/{workspace}': (ctx, { params, body }) => renameWorkspace(ctx, params.workspace, body),
  'PUT /workspaces/{workspace}/autostart': (ctx, { params, body }) => setAutostart(ctx, params.workspace, body),
  'PUT /workspaces/{workspace}/ttl': (ctx, { params, body }) => setTtl(ctx, params.workspace, body),
  'PUT /workspaces/{workspace}/autoupdates': (ctx, { params, body }) =>
    setAutomaticUpdates(ctx, params.workspace, body),
  'PUT /workspaces/{workspace}/extend': (ctx, { params, body }) => extend(ctx, params.workspace, body),
  'PUT /workspaces/{workspace}/dormant': (ctx, { params, body }) => setDormancy(ctx, params.workspace, body),
  'PUT /workspaces/{workspace}/favorite': (ctx, { params }) => setFavorite(ctx, params.workspace, true),
  'DELETE /workspaces/{workspace}/favorite': (ctx, { params }) => setFavorite(ctx, params.workspace, false),
  'POST /workspaces/{workspace}/usage': (ctx, { params, body }) => noteUsage(ctx, params.workspace, body),
  'GET /workspaces/{workspace}/external-agent/{agent}/credentials': (ctx, { params }) =>
    externalAgentCredentials(ctx, params.workspace, params.agent),
  'GET /workspaces/{workspace}/resolve-autostart': (ctx, { params }) => resolveAutostart(ctx, params.workspace),
  'GET /organizations/{organization}/settings/workspace-sharing': (ctx, { params }) =>
    sharingSettings(ctx, params.organization),
  'PATCH /organizations/{organization}/settings/workspace-sharing': (ctx, { params, body }) =>
    setSharingSettings(ctx, params.organization, body),
  'GET /workspaces/{workspace}/acl': (ctx, { params }) => workspaceAcl(ctx, params.workspace),
  'PATCH /workspaces/{workspace}/acl': (ctx, { params, body }) => updateAcl(ctx, params.workspace, body),
  'DELETE /workspaces/{workspace}/acl': (ctx, { params }) => clearAcl(ctx, params.workspace),
  'GET /workspaces/{workspace}/timings': (ctx, { params }) => getWorkspaceTimings(ctx, params.workspace),
  'GET /workspaces/{workspace}/builds': (ctx, { params, query }) => getBuilds(ctx, params.workspace, query),
  'POST /workspaces/{workspace}/builds': (ctx, { params, body }) => requestBuild(ctx, params.workspace, body),
  'POST /workspaces/{workspace}/restart': (ctx, { params, body }) => restartWorkspace(ctx, params.workspace, body),
  'GET /workspaces/{workspace}/watch': async (ctx, { params, http }) => {
    await findWorkspace(ctx, 'read', params.workspace, { deleted: true });
    await followAsEvents(ctx, http.reply, workspaceSource(ctx, params.workspace));
  },
  'GET /workspaces/{workspace}/watch-ws': async (ctx, { params, http }) => {
    await findWorkspace(ctx, 'read', params.workspace, { deleted: true });
    void followAsMessages(ctx, http.upgrade(), workspaceSource(ctx, params.workspace));
  },
});
