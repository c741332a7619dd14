import { getJob, listDaemons, listJobs } from '../../app/provisioner/list.ts';
import { defineHandlers } from '../exchange.ts';

export const provisionerHandlers = defineHandlers({
  'GET /organizations/{organization}/provisionerdaemons': (ctx, { params, query }) =>
    listDaemons(ctx, params.organization, query),
  'GET /organizations/{organization}/provisionerjobs': (ctx, { params, query }) =>
    listJobs(ctx, params.organization, query),
  'GET /organizations/{organization}/provisionerjobs/{job}': (ctx, { params }) =>
    getJob(ctx, params.organization, params.job),
});
