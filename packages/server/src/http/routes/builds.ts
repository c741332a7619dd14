import type { Ctx } from '../../app/context/context.ts';
import { jobLogSource, listJobLogs } from '../../app/job/logs.ts';
import {
  cancelBuild,
  findBuild,
  getBuild,
  getBuildParameters,
  getBuildResources,
  getBuildState,
  getBuildTimings,
  getPrompts,
} from '../../app/workspace/build/read.ts';
import { replaceBuildState } from '../../app/workspace/build/replace-state.ts';
import { allBuildsSource, mayFollowAllBuilds } from '../../app/workspace/build/watch.ts';
import { defineHandlers } from '../exchange.ts';
import { followAsTexts } from '../follow.ts';

export const buildHandlers = defineHandlers({
  'GET /api/experimental/aitasks/prompts': (ctx, { query }) => getPrompts(ctx, query.build_ids),
  'GET /api/experimental/watch-all-workspacebuilds': (ctx, { http }) => {
    mayFollowAllBuilds(ctx);
    void followAsTexts(ctx, http.upgrade(), allBuildsSource(ctx));
  },
  'GET /workspacebuilds/{workspacebuild}': (ctx, { params }) => getBuild(ctx, params.workspacebuild),
  'PATCH /workspacebuilds/{workspacebuild}/cancel': (ctx, { params, http }) =>
    cancelBuild(
      ctx,
      params.workspacebuild,
      (http.request.query as { expect_status?: string }).expect_status || undefined,
    ),
  'GET /workspacebuilds/{workspacebuild}/logs': async (ctx, { params, query, http }) => {
    const build = await findBuild(ctx, params.workspacebuild);
    if (!query.follow) return listJobLogs(ctx, build.job_id, query);
    const permission = (now: Ctx) => findBuild(now, build.id);
    void followAsTexts(ctx, http.upgrade(), jobLogSource(ctx, build.job_id, { permission, after: query.after }));
    return [];
  },
  'GET /workspacebuilds/{workspacebuild}/parameters': (ctx, { params, query }) =>
    getBuildParameters(ctx, params.workspacebuild, query.earlier),
  'GET /workspacebuilds/{workspacebuild}/resources': (ctx, { params }) => getBuildResources(ctx, params.workspacebuild),
  'GET /workspacebuilds/{workspacebuild}/timings': (ctx, { params }) => getBuildTimings(ctx, params.workspacebuild),
  'GET /workspacebuilds/{workspacebuild}/state': async (ctx, { params, http }) => {
    http.reply.type('application/json');
    return getBuildState(ctx, params.workspacebuild);
  },
  'PUT /workspacebuilds/{workspacebuild}/state': (ctx, { params, body }) =>
    replaceBuildState(ctx, params.workspacebuild, body),
});
