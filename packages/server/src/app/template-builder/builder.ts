import type {
  Template,
  TemplateBuilderBasesResponse,
  TemplateBuilderComposeRequest,
  TemplateBuilderCreateTemplateRequest,
  TemplateBuilderModulesResponse,
  TemplateVersion,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkName } from '@ropewalk/rules';
import { may, mayAnywhere } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import type { Action } from '../../authz/policy.ts';
import { jobLogs } from '../../db/queries/job-logs.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { templateByName } from '../../db/queries/templates.ts';
import type { JobRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { locateOrganization } from '../find/organization.ts';
import { createWakeUp } from '../follow/wake-up.ts';
import { createTemplate } from '../template/create.ts';
import { archiveOf, storeArchive } from '../template/examples.ts';
import { checkDescription } from '../template/validate.ts';
import { createVersion } from '../template/version-create.ts';
import type { ItemVariable } from '../template-catalog/items.ts';
import { type Choice, type Composed, compose } from './compose.ts';

/** How long a request waits for an import, as upstream's does. */
const IMPORT_MS = 120_000;
/** A lost notification delays the answer by no more than this. */
const LOOK_AGAIN_MS = 1_000;
/** The number of lines of a failed import's log in an error. */
const MAX_LOG_LINES = 20;

/** Answers like a server without the builder to people who may do this in no organization, as upstream does. */
function requireAnywhere(ctx: Ctx, action: Action): void {
  if (ctx.config.disableTemplateBuilder || !mayAnywhere(ctx.actor, action, { type: 'template' })) throw notFound();
}

const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

const toVariable = ({ name, type, description, required, sensitive, default: value }: ItemVariable) => ({
  name,
  type,
  description,
  required,
  sensitive,
  ...(value === undefined ? {} : { default: value }),
});

/** The bases, by name. */
export async function listBases(ctx: Ctx): Promise<TemplateBuilderBasesResponse> {
  requireAnywhere(ctx, 'read');
  const { bases, problems } = await ctx.templateCatalog.read();
  return {
    bases: [...bases.values()]
      .map(({ id, name, description, icon, os, prerequisites, variables }) => {
        return { id, name, description, icon, os, prerequisites, variables: variables.map(toVariable) };
      })
      .sort((a, b) => byText(a.name, b.name)),
    problems: mayAnywhere(ctx.actor, 'create', { type: 'template' }) ? problems : [],
  };
}

/** The modules, by id. With `base`, those that work on the operating system of this base. */
export async function listModules(ctx: Ctx, base = ''): Promise<TemplateBuilderModulesResponse> {
  requireAnywhere(ctx, 'read');
  const { bases, modules } = await ctx.templateCatalog.read();
  const os = bases.get(base)?.os;
  if (base !== '' && os === undefined) {
    throw new AppError('invalid', 'Unknown base template.', { detail: `No base has the id ${JSON.stringify(base)}.` });
  }
  const works = (systems: readonly string[]) => os === undefined || systems.length === 0 || systems.includes(os);
  return {
    modules: [...modules.values()]
      .filter(({ compatibleOs }) => works(compatibleOs))
      .map(({ id, name, description, icon, category, version, compatibleOs, conflictsWith, variables }) => ({
        id,
        display_name: name,
        description,
        icon,
        category,
        version,
        compatible_os: compatibleOs,
        conflicts_with: conflictsWith,
        variables: variables.map(toVariable),
      }))
      .sort((a, b) => byText(a.id, b.id)),
  };
}

async function composed(ctx: Ctx, request: TemplateBuilderComposeRequest): Promise<Composed> {
  if (request.base_template_id === '') throw new AppError('invalid', 'Missing base_template_id.');
  const choice: Choice = {
    base: request.base_template_id,
    baseValues: request.base_variable_values ?? {},
    modules: (request.modules ?? []).map(({ id, variables = {} }) => ({ id, values: variables })),
  };
  return compose(await ctx.templateCatalog.read(), choice);
}

/** The composed template as a tar. */
export async function composeArchive(ctx: Ctx, request: TemplateBuilderComposeRequest): Promise<Uint8Array> {
  requireAnywhere(ctx, 'create');
  return archiveOf((await composed(ctx, request)).files);
}

/** Accepts a report that upstream's dashboard sends for its telemetry. */
export async function acceptSession(ctx: Ctx): Promise<undefined> {
  requireAnywhere(ctx, 'create');
  return undefined;
}

/** Waits for the end of a job. Throws AppErrors: `timeout`, and `canceled` when the caller disconnects. */
async function endOfJob(ctx: Ctx, jobId: string): Promise<JobRow> {
  const { wake, wait } = createWakeUp();
  const until = ctx.clock.now().getTime() + IMPORT_MS;
  // from before the first look, so that no change is missed
  const off = ctx.events.on('job_changed', (event) => event.job_id === jobId && event.end && wake());
  ctx.signal.addEventListener('abort', wake);
  try {
    for (;;) {
      const job = await jobById(ctx.sql, jobId);
      if (!job) throw notFound();
      if (job.completed_at) return job;
      await wait(LOOK_AGAIN_MS);
      if (ctx.signal.aborted) throw new AppError('canceled', 'The request was canceled.');
      if (ctx.clock.now().getTime() <= until) continue;
      throw new AppError('timeout', 'Timed out waiting for template import to complete.', {
        detail: 'The import continues. The template version appears in the list of jobs of the organization.',
      });
    }
  } finally {
    off();
    ctx.signal.removeEventListener('abort', wake);
  }
}

/** Throws an AppError for an import that did not succeed, with the end of its errors. */
async function requireSuccess(ctx: Ctx, job: JobRow): Promise<void> {
  if (job.canceled_at) throw new AppError('invalid', 'Template import was canceled.');
  if (job.error === null) return;
  const lines = (await jobLogs(ctx.sql, job.id, {})).filter(({ level, output }) => level === 'error' && output !== '');
  const detail = [job.error, ...lines.slice(-MAX_LOG_LINES).map(({ output }) => output)].join('\n');
  throw new AppError('invalid', 'Template import failed.', { detail });
}

/**
 * Composes a template, imports it as a version and creates the template, all in the name of the caller, whose rights each
 * step checks. Sensitive values are stored with the version and are not part of its source.
 */
export async function createComposed(ctx: Ctx, request: TemplateBuilderCreateTemplateRequest): Promise<Template> {
  if (ctx.config.disableTemplateBuilder) throw notFound();
  const { organizationId } = await locateOrganization(ctx, request.organization_id);
  if (!may(ctx.actor, 'create', { type: 'template', organizationId })) throw notFound();
  const { name, display_name = '', description = '', icon = '', provisioner_tags: tags = {} } = request;
  checkName('name', name);
  checkDisplayName('display_name', display_name);
  checkDescription(description);
  if (await templateByName(ctx.sql, organizationId, name)) {
    throw new AppError('conflict', 'A template with this name already exists in the organization.', {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
  const { files, sensitive } = await composed(ctx, request);
  const fileId = await storeArchive(ctx, 'template builder', files);
  const version: TemplateVersion = await createVersion(
    ctx,
    organizationId,
    { storage_method: 'file', provisioner: 'terraform', tags, user_variable_values: sensitive },
    fileId,
  );
  await requireSuccess(ctx, await endOfJob(ctx, version.job.id));
  return createTemplate(ctx, organizationId, {
    name,
    display_name,
    description,
    icon,
    template_version_id: version.id,
    allow_user_cancel_workspace_jobs: false,
  });
}
