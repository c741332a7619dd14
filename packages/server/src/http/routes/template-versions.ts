import type { Ctx } from '../../app/context/context.ts';
import { getVersionExternalAuth } from '../../app/external-auth/for-template.ts';
import { findVersion } from '../../app/find/template.ts';
import { jobLogSource, listJobLogs } from '../../app/job/logs.ts';
import { evaluateForm, openForm } from '../../app/parameters/form.ts';
import { explainProvisioners } from '../../app/provisioner/explain.ts';
import {
  cancelDryRun,
  createDryRun,
  findDryRun,
  getDryRun,
  getDryRunMatched,
  getDryRunResources,
} from '../../app/template/dry-run.ts';
import { createVersion } from '../../app/template/version-create.ts';
import {
  getVersion,
  getVersionParameters,
  getVersionPresets,
  getVersionResources,
  getVersionVariables,
} from '../../app/template/version-read.ts';
import { archiveVersion, cancelVersion, unarchiveVersion, updateVersion } from '../../app/template/versions.ts';
import { defineHandlers } from '../exchange.ts';
import { followAsTexts } from '../follow.ts';
import { serveForm } from '../parameter-form.ts';

export const templateVersionHandlers = defineHandlers({
  'POST /organizations/{organization}/templateversions': (ctx, { params, body }) =>
    createVersion(ctx, params.organization, body),
  'GET /templateversions/{templateversion}': (ctx, { params }) => getVersion(ctx, params.templateversion),
  'PATCH /templateversions/{templateversion}': (ctx, { params, body }) =>
    updateVersion(ctx, params.templateversion, body),
  'POST /templateversions/{templateversion}/archive': (ctx, { params }) => archiveVersion(ctx, params.templateversion),
  'POST /templateversions/{templateversion}/unarchive': (ctx, { params }) =>
    unarchiveVersion(ctx, params.templateversion),
  'PATCH /templateversions/{templateversion}/cancel': (ctx, { params }) => cancelVersion(ctx, params.templateversion),
  'GET /templateversions/{templateversion}/logs': async (ctx, { params, query, http }) => {
    const version = await findVersion(ctx, 'read', params.templateversion);
    if (!query.follow) return listJobLogs(ctx, version.job_id, query);
    const permission = (now: Ctx) => findVersion(now, 'read', version.id);
    void followAsTexts(ctx, http.upgrade(), jobLogSource(ctx, version.job_id, { permission, after: query.after }));
    return [];
  },
  'GET /templateversions/{templateversion}/resources': (ctx, { params }) =>
    getVersionResources(ctx, params.templateversion),
  'GET /templateversions/{templateversion}/rich-parameters': (ctx, { params }) =>
    getVersionParameters(ctx, params.templateversion),
  'GET /templateversions/{templateversion}/presets': (ctx, { params }) =>
    getVersionPresets(ctx, params.templateversion),
  'GET /templateversions/{templateversion}/variables': (ctx, { params }) =>
    getVersionVariables(ctx, params.templateversion),
  'GET /templateversions/{templateversion}/external-auth': (ctx, { params }) =>
    getVersionExternalAuth(ctx, params.templateversion),
  'GET /templateversions/{templateversion}/dynamic-parameters': async (ctx, { params, http }) => {
    const form = await openForm(ctx, params.templateversion);
    void serveForm(ctx, http.upgrade(), form);
  },
  'POST /templateversions/{templateversion}/dynamic-parameters/evaluate': (ctx, { params, body }) =>
    evaluateForm(ctx, params.templateversion, body),
  // the routes of an older kind of parameters: old clients get an empty list
  'GET /templateversions/{templateversion}/schema': async (ctx, { params, http }) => {
    await findVersion(ctx, 'read', params.templateversion);
    return void http.reply.send([]);
  },
  'GET /templateversions/{templateversion}/parameters': async (ctx, { params, http }) => {
    await findVersion(ctx, 'read', params.templateversion);
    return void http.reply.send([]);
  },
  'POST /templateversions/{templateversion}/dry-run': (ctx, { params, body }) =>
    createDryRun(ctx, params.templateversion, body),
  'GET /templateversions/{templateversion}/dry-run/{jobID}': (ctx, { params }) =>
    getDryRun(ctx, params.templateversion, params.jobID),
  'PATCH /templateversions/{templateversion}/dry-run/{jobID}/cancel': (ctx, { params }) =>
    cancelDryRun(ctx, params.templateversion, params.jobID),
  'GET /templateversions/{templateversion}/dry-run/{jobID}/logs': async (ctx, { params, query, http }) => {
    const job = await findDryRun(ctx, 'read', params.templateversion, params.jobID);
    if (!query.follow) return listJobLogs(ctx, job.id, query);
    const permission = (now: Ctx) => findDryRun(now, 'read', params.templateversion, job.id);
    void followAsTexts(ctx, http.upgrade(), jobLogSource(ctx, job.id, { permission, after: query.after }));
    return [];
  },
  'GET /templateversions/{templateversion}/dry-run/{jobID}/resources': (ctx, { params }) =>
    getDryRunResources(ctx, params.templateversion, params.jobID),
  'GET /templateversions/{templateversion}/dry-run/{jobID}/matched-provisioners': (ctx, { params }) =>
    getDryRunMatched(ctx, params.templateversion, params.jobID),
  'GET /templateversions/{templateversion}/provisioners': (ctx, { params, query }) =>
    explainProvisioners(ctx, params.templateversion, query.parameters),
});
