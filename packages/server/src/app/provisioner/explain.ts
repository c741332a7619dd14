import type { ProvisionerExplanation } from '@ropewalk/contract';
import { differenceText } from '@ropewalk/rules';
import { authorize, may } from '../../authz/authorize.ts';
import { countMatching, daemonsVisibleTo } from '../../db/queries/daemons.ts';
import { requirementOfVersion } from '../../db/queries/files.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { versionParameters } from '../../db/queries/version-contents.ts';
import type { Ctx } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { toMatched } from '../job/convert.ts';
import { enginesText, hasEngine } from '../job/engines.ts';
import { differenceSize, tagDifference } from '../job/tags.ts';
import { buildTags } from '../job/workspace-tags.ts';
import { badQuery } from '../lists/search.ts';
import { withAnswers } from '../parameters/answers.ts';
import { checkGiven } from '../parameters/parameters.ts';
import { optionalTime } from '../values/time.ts';

/** From a JSON object, or none. */
function parametersOf(text: string | undefined): { name: string; value: string }[] {
  if (!text) return [];
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    given = undefined;
  }
  const entries = Object.entries((typeof given === 'object' && !Array.isArray(given) && given) || { '': null });
  if (entries.some(([, value]) => typeof value !== 'string')) {
    throw badQuery('parameters', 'must be a JSON object with string values');
  }
  return entries.map(([name, value]) => ({ name, value: value as string }));
}

/**
 * Explains which daemons could run a build of this version for the caller, with these parameters and defaults for the
 * others, and why each other daemon cannot. The closest daemons come first. Only their owner and administrators see
 * user-scoped daemons.
 */
export async function explainProvisioners(
  ctx: Ctx,
  versionId: string,
  parameters: string | undefined,
): Promise<ProvisionerExplanation> {
  const version = await findVersion(ctx, 'read', versionId);
  const organizationId = version.organization_id;
  authorize(ctx, 'read', { type: 'provisioner_daemon', organizationId });
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const job = await jobById(ctx.sql, version.job_id);
  const required = await requirementOfVersion(ctx.sql, { fileId: job!.file_id, versionId });
  const given = parametersOf(parameters);
  const declared = await versionParameters(ctx.sql, versionId);
  const tags = await withAnswers(ctx, (answers) => {
    // otherwise values decide which parameters there are, and the form checks them
    if (version.use_classic_parameter_flow) checkGiven(answers, declared, given);
    return buildTags(ctx, ctx.sql, answers, { versionId, ownerId: actorId, parameters: given });
  });
  const all = may(ctx.actor, 'read', { type: 'provisioner_jobs', organizationId });
  const rows = await daemonsVisibleTo(ctx.sql, organizationId, { all, userId: actorId });
  const daemons = rows.map((row) => {
    const supported = row.provisioners.includes(job!.provisioner);
    const difference = tagDifference(tags, row.tags);
    const why = [
      ...(hasEngine(required, row.engines)
        ? []
        : [`it has ${enginesText(row.engines)}, and the template requires Terraform ${required.required_version}`]),
      ...(difference ? [differenceText(difference)] : []),
      ...(supported ? [] : [`it runs ${row.provisioners.join(', ')}, not ${job!.provisioner}`]),
    ];
    return {
      id: row.id,
      name: row.name,
      status: row.status,
      tags: row.tags,
      ...optionalTime('last_seen_at', row.last_seen_at),
      can_run: why.length === 0,
      ...(why.length === 0 ? {} : { why: why.join('; ') }),
      ...(difference ? { difference } : {}),
    };
  });
  const far = (one: (typeof daemons)[number]) =>
    (one.difference ? differenceSize(one.difference) : 0) +
    (one.status === 'offline' ? 0.5 : 0) +
    (one.can_run ? 0 : 1);
  daemons.sort((a, b) => far(a) - far(b) || a.name.localeCompare(b.name));
  return {
    organization_id: organizationId,
    template_version_id: version.id,
    tags,
    matched_provisioners: toMatched(await countMatching(ctx.sql, { ...job!, tags })),
    daemons,
  };
}
