import type { DynamicParametersRequest, DynamicParametersResponse, FriendlyDiagnostic } from '@ropewalk/contract';
import type { Notice, Preview, PreviewedParameter } from '@ropewalk/hcl';
import { AppError, isAppError } from '@ropewalk/kit';
import { authorize, may } from '../../authz/authorize.ts';
import type { VersionRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { imageAddress } from '../values/image-address.ts';
import { type Evaluation, evaluationFor, isEvaluable, previewOnThread, sourceOf } from './evaluation.ts';

/** How long the facts about an owner are used, in ms: typing must not wait for the database. */
const OWNER_MS = 10_000;

/** A form that a person fills in: a version with the owner of the workspace. */
export interface ParameterForm {
  version: VersionRow;
  answer(request: DynamicParametersRequest, signal: AbortSignal): Promise<DynamicParametersResponse>;
  /** Repeats the authorization of the last answer. @throws AppError if it no longer holds */
  permission(ctx: Ctx): Promise<void>;
}

/** @throws AppError `precondition` while the version is being imported */
export async function openForm(ctx: Ctx, versionId: string): Promise<ParameterForm> {
  const version = await findVersion(ctx, 'read', versionId);
  if (['pending', 'running', 'canceling'].includes(version.job_status))
    throw new AppError('precondition', 'Template version job has not finished', {
      detail: `The import job is ${version.job_status}. Wait until it has finished.`,
    });
  const source = await sourceOf(ctx.sql, version.id);
  let ownerId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  let known: { ownerId: string; until: number; evaluation: Evaluation | undefined } | undefined;

  const evaluation = async (): Promise<Evaluation | undefined> => {
    if (known?.ownerId === ownerId && known.until > performance.now()) return known.evaluation;
    // fellow members may read the name of an owner, but not the groups and roles that a template can show
    const place = { type: 'group_member', organizationId: version.organization_id, ownerId } as const;
    const found = may(ctx.actor, 'read', place) ? await evaluationFor(ctx, ctx.sql, source, ownerId) : undefined;
    known = { ownerId, until: performance.now() + OWNER_MS, evaluation: found };
    return found;
  };

  return {
    version,
    async answer({ id = 0, inputs = {}, owner_id: owner }, signal) {
      if (owner) ownerId = owner;
      const found = await evaluation();
      if (!found) return { id, parameters: [], diagnostics: [toDiagnostic(NO_OWNER)] };
      if (isEvaluable(source) && !source.has_parameters) return { id, parameters: [], diagnostics: [] };
      const by = { person: ctx.actor.kind === 'user' ? ctx.actor.id : '', signal };
      try {
        return toResponse(id, await previewOnThread(ctx, found, inputs, by));
      } catch (err) {
        // of a template that takes too long, for example: the form shows it, and another value may help. Another server can
        // answer for one that ends
        if (!isAppError(err) || err.code === 'internal' || ctx.work.evaluation.closed) throw err;
        const failed: Notice = { severity: 'error', summary: err.message, detail: err.detail ?? '', code: '' };
        return { id, parameters: [], diagnostics: [toDiagnostic(failed)] };
      }
    },
    async permission(now) {
      const { organization_id: organizationId } = await findVersion(now, 'read', version.id);
      authorize(now, 'read', { type: 'group_member', organizationId, ownerId });
    },
  };
}

const NO_OWNER: Notice = {
  severity: 'error',
  summary: 'Failed to fetch workspace owner',
  detail: 'The user is not a member of the organization, or you cannot see the user. Choose another owner.',
  code: 'owner_not_found',
};

export async function evaluateForm(
  ctx: Ctx,
  versionId: string,
  request: DynamicParametersRequest,
): Promise<DynamicParametersResponse> {
  const form = await openForm(ctx, versionId);
  return form.answer(request, ctx.signal);
}

const toDiagnostic = ({ severity, summary, detail, code }: Notice): FriendlyDiagnostic => ({
  severity,
  summary,
  detail,
  extra: { code },
});

const toResponse = (id: number, { parameters, diagnostics }: Preview): DynamicParametersResponse => ({
  id,
  diagnostics: diagnostics.map(toDiagnostic),
  parameters: parameters.map(toParameter),
});

type ApiParameter = DynamicParametersResponse['parameters'][number];

const toParameter = (parameter: PreviewedParameter): ApiParameter => ({
  ...parameter,
  icon: imageAddress(parameter.icon),
  options: parameter.options.map((option) => ({ ...option, icon: imageAddress(option.icon) })),
  type: parameter.type as ApiParameter['type'],
  form_type: parameter.form_type as ApiParameter['form_type'],
  validations: parameter.validations.map(({ error, regex, min, max, monotonic }) => ({
    validation_error: error,
    validation_regex: regex,
    validation_min: min,
    validation_max: max,
    validation_monotonic: monotonic,
  })),
  diagnostics: parameter.diagnostics.map(toDiagnostic),
});
