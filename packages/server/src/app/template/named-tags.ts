import { AppError } from '@ropewalk/kit';
import { previewOwner } from '../../db/queries/dynamic-parameters.ts';
import { fileData } from '../../db/queries/files.ts';
import { variableValues } from '../../db/queries/version-contents.ts';
import type { Tags } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import type { NameValue } from '../evaluate/parameter-values.ts';
import { toOwner, WHAT_OF_TAGS } from '../parameters/evaluation.ts';

/** How long a push waits for the tags, in ms. Without them, it only explains less. */
const MAX_WAIT_MS = 5_000;

/**
 * The tags that an archive's `coder_workspace_tags` have with the defaults of its parameters, as far as they are known
 * before the import. They apply to workspaces, not to the import, so that they are only suggested. Empty if they cannot
 * be evaluated: that must not fail a push.
 */
export async function namedTags(
  ctx: Ctx,
  {
    fileId,
    organizationId,
    activeVersionId,
    given,
  }: { fileId: string; organizationId: string; activeVersionId: string | undefined; given: readonly NameValue[] },
): Promise<Tags> {
  const archive = await fileData(ctx.sql, fileId);
  if (!archive) return {};
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const owner = actorId ? await previewOwner(ctx.sql, actorId, organizationId) : undefined;
  const before = activeVersionId ? await variableValues(ctx.sql, activeVersionId) : [];
  const names = new Set(given.map(({ name }) => name));
  const variables = [
    ...given.map((variable) => ({ ...variable, type: '' })),
    ...before.filter((variable) => variable.given && !names.has(variable.name)),
  ];
  const unknown = { id: '', name: '', full_name: '', email: '', login_type: '', ssh_public_key: '', groups: [] };
  const nobody = { ...unknown, roles: [], organization_roles: [], is_member: true };
  const chosen = {
    inputs: {},
    owner: toOwner(owner ?? nobody, organizationId),
    accessUrl: ctx.accessUrl,
    variables,
  };
  try {
    const version = { id: `archive ${fileId}`, files: { archive } };
    const found = await ctx.work.evaluation.run(
      'evaluateTags',
      { version, chosen },
      { person: actorId, what: WHAT_OF_TAGS, signal: AbortSignal.timeout(MAX_WAIT_MS) },
    );
    return found?.tags ?? {};
  } catch (err) {
    ctx.log.debug('could not evaluate the tags of an archive', { err });
    if (!(err instanceof AppError) && !(err instanceof DOMException)) throw err;
    return {};
  }
}
