import { AppError } from '@ropewalk/kit';
import { may } from '../../../authz/authorize.ts';
import type { Tx } from '../../../db/connect.ts';
import {
  presetParameters,
  type SourceVersion,
  sourceVersion,
  type VersionRules,
} from '../../../db/queries/build-sources.ts';
import type { Transition } from '../../../db/rows.ts';
import { together } from '../../../db/together.ts';
import type { Ctx } from '../../context/context.ts';
import type { NameValue } from '../../evaluate/parameter-values.ts';
import { templateObject } from '../../find/template.ts';
import type { Answers } from '../../parameters/answers.ts';
import { buildValues } from '../../parameters/values.ts';

/** The choices of a person who creates, starts, stops or deletes a workspace. */
export interface BuildChoice {
  transition: Transition;
  versionId: string;
  /** The owner of the workspace. */
  ownerId: string;
  presetId: string | undefined;
  given: NameValue[];
  /** The values of the last build. */
  last: NameValue[] | undefined;
  /** Whether the build creates the workspace. An existing workspace may keep its version when that is archived. */
  creates?: boolean;
}

/** A build whose version and parameters are valid. */
export interface PreparedBuild {
  version: SourceVersion;
  presetId: string | undefined;
  parameters: NameValue[];
}

/**
 * Checks that the actor may use the version, that its import has succeeded, that the preset belongs to it, and that the
 * parameters are valid.
 * @throws AppError that names the check that failed
 */
export async function prepareBuild(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  template: VersionRules,
  { transition, versionId, ownerId, presetId, given, last, creates = false }: BuildChoice,
): Promise<PreparedBuild> {
  if (
    transition === 'start' &&
    template.require_active_version &&
    versionId !== template.active_version_id &&
    !may(ctx.actor, 'update', templateObject(template))
  ) {
    throw new AppError('forbidden', 'Template requires using the active version.');
  }
  const values = async () => {
    const preset = presetId ? await presetParameters(tx, versionId, presetId) : {};
    if (!preset) throw new AppError('invalid', 'The preset does not belong to this template version.');
    return buildValues(ctx, tx, answers, {
      versionId,
      ownerId,
      classic: template.use_classic_parameter_flow,
      given,
      preset,
      last,
      trustLast: transition !== 'start',
    });
  };
  const [version, parameters] = await together([usableVersion(tx, versionId, template.id, creates), values()]);
  return { version, presetId: presetId || undefined, parameters };
}

/**
 * Finds a version. Rejects versions of another template, those whose import has not succeeded, and archived ones for a new
 * workspace.
 */
async function usableVersion(tx: Tx, versionId: string, templateId: string, creates: boolean): Promise<SourceVersion> {
  const version = await sourceVersion(tx, versionId);
  if (!version) {
    const detail = 'template version not found';
    throw new AppError('invalid', 'Template version not found.', {
      validations: [{ field: 'template_version_id', detail }],
    });
  }
  if (version.template_id !== templateId)
    throw new AppError('invalid', 'The template version does not belong to the template of this workspace.');
  switch (version.job_status) {
    case 'pending':
    case 'running':
    case 'canceling':
      throw new AppError(
        'not_acceptable',
        'The provided template version is still importing. Wait until it is imported.',
      );
    case 'failed':
      throw new AppError('invalid', 'The provided template version has failed to import.', {
        detail: version.error ?? '',
      });
    case 'canceled':
      throw new AppError('invalid', 'The import of the provided template version was canceled.');
    case 'succeeded':
      if (!creates || !version.archived) return version;
      throw new AppError('invalid', 'The template version is archived. Choose another version for a new workspace.', {
        validations: [{ field: 'template_version_id', detail: 'template version is archived' }],
      });
  }
}
