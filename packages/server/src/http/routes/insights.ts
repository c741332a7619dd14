import { deploymentBuildTimes } from '../../app/insights/builds.ts';
import { templateInsights } from '../../app/insights/templates.ts';
import { deploymentDaus, userActivity, userLatency, userStatusCounts } from '../../app/insights/users.ts';
import { defineHandlers } from '../exchange.ts';

export const insightsHandlers = defineHandlers({
  'GET /insights/build-times': (ctx, { query }) => deploymentBuildTimes(ctx, query.tz_offset),
  'GET /insights/daus': (ctx, { query }) => deploymentDaus(ctx, query.tz_offset),
  'GET /insights/templates': (ctx, { query }) => templateInsights(ctx, query),
  'GET /insights/user-activity': (ctx, { query }) => userActivity(ctx, query),
  'GET /insights/user-latency': (ctx, { query }) => userLatency(ctx, query),
  'GET /insights/user-status-counts': (ctx, { query }) => userStatusCounts(ctx, query.tz_offset),
});
