import { Type } from 'typebox';
import { Response } from '../schema/common.ts';
import { DynamicParametersRequest, DynamicParametersResponse } from '../schema/dynamic-parameters.ts';
import { documentedAlso, LogPosition, NotEmpty, Whole } from '../schema/kit.ts';
import {
  MatchedProvisioners,
  ProvisionerExplanation,
  ProvisionerJob,
  ProvisionerJobLog,
} from '../schema/provisioners.ts';
import { ACLAvailable, TemplateACL, UpdateTemplateACL } from '../schema/template-acl.ts';
import {
  ArchiveTemplateVersionsRequest,
  ArchiveTemplateVersionsResponse,
  CreateTemplateRequest,
  CreateTemplateVersionDryRunRequest,
  CreateTemplateVersionRequest,
  DAUsResponse,
  InvalidatePresetsResponse,
  PatchTemplateVersionRequest,
  Preset,
  Template,
  TemplateExample,
  TemplatePrebuilds,
  TemplateVersion,
  TemplateVersionExternalAuth,
  TemplateVersionParameter,
  TemplateVersionVariable,
  UpdateActiveTemplateVersion,
  UpdateTemplateMeta,
} from '../schema/templates.ts';
import { WorkspaceResource } from '../schema/workspaces.ts';
import { Nothing, route } from './kit.ts';
import { harmless, restricts, restrictsUnless, unknownKeys } from './unknown-keys.ts';

const arrayOfVersions = Type.Array(TemplateVersion);

export const templatesRoutes = {
  'GET /organizations/{organization}/templates': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    query: Type.Object({ q: Type.Optional(Type.String()), deprecated: Type.Optional(Type.Boolean()) }),
    responses: { 200: Type.Array(Template) },
  }),
  'POST /organizations/{organization}/templates': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    body: CreateTemplateRequest,
    unknownKeys: unknownKeys('limit', {
      max_ttl_ms: restricts('the longest life of a workspace'),
      inactivity_ttl_ms: restricts('when an unused workspace stops'),
      locked_ttl_ms: restricts('when a locked workspace is deleted'),
      restart_requirement: restricts('when workspaces must restart'),
      user_variable_values: harmless("values of a version's variables, which the dashboard sends twice"),
      allow_everyone_group_access: restrictsUnless(
        "a field of the dashboard's form",
        '`true`, or with `disable_everyone_group_access`',
        (value, body) => value === true || body['disable_everyone_group_access'] === true,
      ),
    }),
    responses: { 201: Template },
  }),
  'GET /organizations/{organization}/templates/examples': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    responses: { 200: Type.Array(TemplateExample) },
  }),
  'GET /organizations/{organization}/templates/{templatename}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ organization: Type.String(), templatename: Type.String() }),
    responses: { 200: Template },
  }),
  'GET /organizations/{organization}/templates/{templatename}/versions/{templateversionname}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({
      organization: Type.String(),
      templatename: Type.String(),
      templateversionname: Type.String(),
    }),
    responses: { 200: TemplateVersion },
  }),
  'GET /organizations/{organization}/templates/{templatename}/versions/{templateversionname}/previous': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({
      organization: Type.String(),
      templatename: Type.String(),
      templateversionname: Type.String(),
    }),
    responses: { 200: TemplateVersion },
  }),
  'POST /organizations/{organization}/templateversions': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ organization: Type.String() }),
    body: CreateTemplateVersionRequest,
    unknownKeys: unknownKeys('content'),
    responses: { 201: TemplateVersion },
  }),
  'GET /templates': route({
    tag: 'Templates',
    auth: 'session',
    query: Type.Object({ q: Type.Optional(Type.String()), deprecated: Type.Optional(Type.Boolean()) }),
    responses: { 200: Type.Array(Template) },
  }),
  'GET /templates/examples': route({
    tag: 'Templates',
    auth: 'session',
    responses: { 200: Type.Array(TemplateExample) },
  }),
  'GET /templates/{template}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    responses: { 200: Template },
  }),
  'DELETE /templates/{template}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    responses: { 200: Response },
  }),
  'PATCH /templates/{template}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    body: UpdateTemplateMeta,
    unknownKeys: unknownKeys('limit', {
      use_terraform_workspace_cache: harmless('keeps files of Terraform between builds'),
    }),
    responses: { 200: Template },
  }),
  'GET /templates/{template}/acl': route({
    tag: 'Templates',
    auth: 'session',
    summary: 'Lists the people and groups with a permission on a template.',
    params: Type.Object({ template: Type.String() }),
    responses: { 200: TemplateACL },
  }),
  'PATCH /templates/{template}/acl': route({
    tag: 'Templates',
    auth: 'session',
    summary: 'Changes the named permissions and leaves the others.',
    params: Type.Object({ template: Type.String() }),
    body: UpdateTemplateACL,
    unknownKeys: unknownKeys('access'),
    responses: { 200: Response },
  }),
  'GET /templates/{template}/acl/available': route({
    tag: 'Templates',
    auth: 'session',
    summary: 'Lists the people and groups that can get a permission on a template.',
    params: Type.Object({ template: Type.String() }),
    query: Type.Object({
      /** Part of a name or email address. */
      q: Type.Optional(Type.String()),
      limit: Type.Optional(Whole),
      offset: Type.Optional(Whole),
    }),
    // Upstream's API document has an array of these. Its programs send and read a single one.
    responses: { 200: documentedAlso(Type.Object(ACLAvailable.properties), Type.Array(ACLAvailable)) },
  }),
  'GET /templates/{template}/daus': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    query: Type.Object({ tz_offset: Type.Optional(Type.Integer({ minimum: -12, maximum: 14 })) }),
    responses: { 200: DAUsResponse },
  }),
  'GET /templates/{template}/prebuilds': route({
    tag: 'Prebuilds',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    summary: 'Lists the pools of prebuilt workspaces of a template.',
    responses: { 200: TemplatePrebuilds },
  }),
  // of upstream since 2.29
  'POST /templates/{template}/prebuilds/invalidate': route({
    tag: 'Prebuilds',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    summary: 'Replaces the prebuilt workspaces of the active version.',
    responses: { 200: InvalidatePresetsResponse },
  }),
  'GET /templates/{template}/versions': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    query: Type.Object({
      after_id: Type.Optional(NotEmpty),
      include_archived: Type.Optional(Type.Boolean()),
      limit: Type.Optional(Whole),
      offset: Type.Optional(Whole),
    }),
    responses: { 200: Type.Array(TemplateVersion) },
  }),
  'PATCH /templates/{template}/versions': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    body: UpdateActiveTemplateVersion,
    unknownKeys: unknownKeys('content'),
    responses: { 200: Response },
  }),
  'POST /templates/{template}/versions/archive': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String() }),
    body: ArchiveTemplateVersionsRequest,
    unknownKeys: unknownKeys('content'),
    responses: { 200: ArchiveTemplateVersionsResponse },
  }),
  'GET /templates/{template}/versions/{templateversionname}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ template: Type.String(), templateversionname: Type.String() }),
    // One version, though upstream's API document says a list.
    responses: { 200: documentedAlso(Type.Object(TemplateVersion.properties), arrayOfVersions) },
  }),
  'GET /templateversions/{templateversion}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: TemplateVersion },
  }),
  'PATCH /templateversions/{templateversion}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    body: PatchTemplateVersionRequest,
    unknownKeys: unknownKeys('display'),
    responses: { 200: TemplateVersion },
  }),
  'POST /templateversions/{templateversion}/archive': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Response },
  }),
  'PATCH /templateversions/{templateversion}/cancel': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Response },
  }),
  'POST /templateversions/{templateversion}/dry-run': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    body: CreateTemplateVersionDryRunRequest,
    unknownKeys: unknownKeys('answer'),
    responses: { 201: ProvisionerJob },
  }),
  'GET /templateversions/{templateversion}/dry-run/{jobID}': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String(), jobID: Type.String() }),
    responses: { 200: ProvisionerJob },
  }),
  'PATCH /templateversions/{templateversion}/dry-run/{jobID}/cancel': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ jobID: Type.String(), templateversion: Type.String() }),
    responses: { 200: Response },
  }),
  'GET /templateversions/{templateversion}/dry-run/{jobID}/logs': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String(), jobID: Type.String() }),
    query: Type.Object({
      before: Type.Optional(LogPosition),
      after: Type.Optional(LogPosition),
      follow: Type.Optional(Type.Boolean()),
    }),
    responses: { 200: Type.Array(ProvisionerJobLog) },
  }),
  'GET /templateversions/{templateversion}/dry-run/{jobID}/matched-provisioners': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String(), jobID: Type.String() }),
    responses: { 200: MatchedProvisioners },
  }),
  'GET /templateversions/{templateversion}/dry-run/{jobID}/resources': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String(), jobID: Type.String() }),
    responses: { 200: Type.Array(WorkspaceResource) },
  }),
  'GET /templateversions/{templateversion}/dynamic-parameters': route({
    tag: 'Templates',
    auth: 'session',
    summary: 'The parameters of a version, evaluated again for each message with the values typed so far.',
    params: Type.Object({ templateversion: Type.String() }),
    stream: 'websocket',
    responses: { 101: Nothing },
  }),
  'POST /templateversions/{templateversion}/dynamic-parameters/evaluate': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    body: DynamicParametersRequest,
    unknownKeys: unknownKeys('answer'),
    responses: { 200: DynamicParametersResponse },
  }),
  'GET /templateversions/{templateversion}/external-auth': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Type.Array(TemplateVersionExternalAuth) },
  }),
  'GET /templateversions/{templateversion}/provisioners': route({
    tag: 'Templates',
    auth: 'session',
    summary:
      "Which provisioner daemons could run a build of this version, and why others cannot. An extension of upstream's API",
    params: Type.Object({ templateversion: Type.String() }),
    /** A JSON object of names and values. Other parameters have their defaults. */
    query: Type.Object({ parameters: Type.Optional(Type.String()) }),
    responses: { 200: ProvisionerExplanation },
  }),
  'GET /templateversions/{templateversion}/logs': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    query: Type.Object({
      before: Type.Optional(LogPosition),
      after: Type.Optional(LogPosition),
      follow: Type.Optional(Type.Boolean()),
    }),
    responses: { 200: Type.Array(ProvisionerJobLog) },
  }),
  'GET /templateversions/{templateversion}/parameters': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Nothing },
  }),
  'GET /templateversions/{templateversion}/presets': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Type.Array(Preset) },
  }),
  'GET /templateversions/{templateversion}/resources': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Type.Array(WorkspaceResource) },
  }),
  'GET /templateversions/{templateversion}/rich-parameters': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Type.Array(TemplateVersionParameter) },
  }),
  'GET /templateversions/{templateversion}/schema': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Nothing },
  }),
  'POST /templateversions/{templateversion}/unarchive': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Response },
  }),
  'GET /templateversions/{templateversion}/variables': route({
    tag: 'Templates',
    auth: 'session',
    params: Type.Object({ templateversion: Type.String() }),
    responses: { 200: Type.Array(TemplateVersionVariable) },
  }),
} as const;
