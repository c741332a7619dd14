import { invalidatePrebuilds } from '../../app/prebuild/invalidate.ts';
import { getPools } from '../../app/prebuild/read.ts';
import { getAvailableForAcl, getTemplateAcl, updateAcl } from '../../app/template/acl.ts';
import { createTemplate } from '../../app/template/create.ts';
import { getTemplateDaus } from '../../app/template/daus.ts';
import { listExamples } from '../../app/template/examples.ts';
import { listTemplates } from '../../app/template/list.ts';
import { getTemplate, getTemplateByName, listExamplesOf, listTemplatesOf } from '../../app/template/read.ts';
import { deleteTemplate, updateTemplate } from '../../app/template/update.ts';
import {
  archiveUnusedVersions,
  getVersionByName,
  getVersionByNames,
  listVersions,
  promoteVersion,
} from '../../app/template/versions.ts';
import { defineHandlers } from '../exchange.ts';

export const templateHandlers = defineHandlers({
  'GET /organizations/{organization}/templates': (ctx, { params, query }) =>
    listTemplatesOf(ctx, params.organization, query),
  'POST /organizations/{organization}/templates': (ctx, { params, body, http }) => {
    http.reply.code(201);
    return createTemplate(ctx, params.organization, body);
  },
  'GET /organizations/{organization}/templates/examples': (ctx, { params }) => listExamplesOf(ctx, params.organization),
  'GET /organizations/{organization}/templates/{templatename}': (ctx, { params }) =>
    getTemplateByName(ctx, params.organization, params.templatename),
  'GET /organizations/{organization}/templates/{templatename}/versions/{templateversionname}': (ctx, { params }) =>
    getVersionByNames(ctx, params),
  'GET /organizations/{organization}/templates/{templatename}/versions/{templateversionname}/previous': (
    ctx,
    { params },
  ) => getVersionByNames(ctx, params, { previous: true }),
  'GET /templates': (ctx, { query }) => listTemplates(ctx, query),
  'GET /templates/examples': () => listExamples(),
  'GET /templates/{template}': (ctx, { params }) => getTemplate(ctx, params.template),
  'PATCH /templates/{template}': (ctx, { params, body }) => updateTemplate(ctx, params.template, body),
  'DELETE /templates/{template}': (ctx, { params }) => deleteTemplate(ctx, params.template),
  'GET /templates/{template}/acl': (ctx, { params }) => getTemplateAcl(ctx, params.template),
  'PATCH /templates/{template}/acl': (ctx, { params, body }) => updateAcl(ctx, params.template, body),
  'GET /templates/{template}/acl/available': (ctx, { params, query }) =>
    getAvailableForAcl(ctx, params.template, query),
  'GET /templates/{template}/daus': (ctx, { params, query }) => getTemplateDaus(ctx, params.template, query.tz_offset),
  'POST /templates/{template}/prebuilds/invalidate': (ctx, { params }) => invalidatePrebuilds(ctx, params.template),
  'GET /templates/{template}/prebuilds': (ctx, { params }) => getPools(ctx, params.template),
  'GET /templates/{template}/versions': (ctx, { params, query }) => listVersions(ctx, params.template, query),
  'PATCH /templates/{template}/versions': (ctx, { params, body }) => promoteVersion(ctx, params.template, body.id),
  'POST /templates/{template}/versions/archive': (ctx, { params, body }) =>
    archiveUnusedVersions(ctx, params.template, body),
  'GET /templates/{template}/versions/{templateversionname}': (ctx, { params }) =>
    getVersionByName(ctx, params.template, params.templateversionname),
});
