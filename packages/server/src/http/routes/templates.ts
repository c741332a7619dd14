import { listJobLogs, streamJobLogs } from '../../app/job/logs.ts';
import { findOrganization } from '../../app/organization/find.ts';
import { toTemplates, toVersions } from '../../app/template/convert.ts';
import { createTemplate } from '../../app/template/create.ts';
import { findTemplate, findTemplateByName, findVersion } from '../../app/template/find.ts';
import { createVersion } from '../../app/template/version-create.ts';
import { resourcesOfJobs } from '../../app/workspace/resources.ts';
import { defineHandlers } from '../exchange.ts';

export const templateHandlers = defineHandlers({
  'POST /organizations/{organization}/templates': (ctx, { params, body, http }) => {
    http.reply.code(201);
    return createTemplate(ctx, params.organization, body);
  },
  'GET /organizations/{organization}/templates/{templatename}': async (ctx, { params }) => {
    const { id } = await findOrganization(ctx.sql, params.organization);
    return (await toTemplates(ctx.sql, [await findTemplateByName(ctx, id, params.templatename)]))[0]!;
  },
  'GET /templates/{template}': async (ctx, { params }) =>
    (await toTemplates(ctx.sql, [await findTemplate(ctx, params.template)]))[0]!,
  'POST /organizations/{organization}/templateversions': (ctx, { params, body }) =>
    createVersion(ctx, params.organization, body),
  'GET /templateversions/{templateversion}': async (ctx, { params }) =>
    (await toVersions(ctx, ctx.sql, [await findVersion(ctx, params.templateversion)]))[0]!,
  'GET /templateversions/{templateversion}/logs': async (ctx, { params, query, http }) => {
    const version = await findVersion(ctx, params.templateversion);
    if (!query.follow) return listJobLogs(ctx, version.job_id, query);
    void streamJobLogs(ctx, http.upgrade(), version.job_id, query.after);
    return [];
  },
  'GET /templateversions/{templateversion}/resources': async (ctx, { params }) => {
    const version = await findVersion(ctx, params.templateversion);
    return (await resourcesOfJobs(ctx, ctx.sql, [version.job_id], 'start')).get(version.job_id) ?? [];
  },
});
