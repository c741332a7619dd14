import type { CreateWorkspaceRequest, Workspace } from '@ropewalk/contract';
import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AppError } from '@ropewalk/kit';
import { checkName } from '@ropewalk/rules';
import { authorize } from '../../authz/authorize.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import { holdTemplate, type SourceTemplate, sourceTemplate } from '../../db/queries/build-sources.ts';
import { pooledPresets } from '../../db/queries/prebuilds.ts';
import { setTaskDisplayName } from '../../db/queries/tasks.ts';
import { auditedWorkspace, insertWorkspace, workspaceById } from '../../db/queries/workspaces.ts';
import { together } from '../../db/together.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireWorkspaceRoom } from '../context/limits.ts';
import { templateObject } from '../find/template.ts';
import { findUser, requirePerson } from '../find/user.ts';
import { viewerOf } from '../find/workspace.ts';
import { beginInTurn } from '../lists/turns.ts';
import { getOrganization } from '../organization/read.ts';
import { withAnswers } from '../parameters/answers.ts';
import { nextStart } from '../schedule/times.ts';
import { insertBuild, orderBuild } from './build/insert.ts';
import { prepareBuild } from './build/prepare.ts';
import { claimReady } from './claim.ts';
import { toWorkspace } from './convert.ts';
import { checkAutostart, checkTtl } from './schedule.ts';

/**
 * Creates and starts a workspace for a user, from a template or one of its versions. If the caller names an
 * organization, the template must belong to it.
 */
export async function createWorkspace(
  ctx: Ctx,
  user: string,
  input: CreateWorkspaceRequest,
  organization?: string,
  { taskDisplayName = '' }: { taskDisplayName?: string } = {},
): Promise<Workspace> {
  const within = organization === undefined ? undefined : await getOrganization(ctx, organization);
  const versionId = input.template_version_id;
  const [owner, template] = await together([
    findUser(ctx, 'read', user),
    chosenTemplate(ctx, input.template_id, versionId),
  ]);
  requirePerson(owner);
  checkName('name', input.name);
  authorize(ctx, 'use', templateObject(template));
  const creatable = authorize(ctx, 'create', {
    type: 'workspace',
    ownerId: owner.id,
    organizationId: template.organization_id,
  });
  if (within && within.id !== template.organization_id) {
    throw new AppError('invalid', `Template "${template.name}" does not belong to the organization "${within.name}".`, {
      validations: [
        {
          field: versionId ? 'template_version_id' : 'template_id',
          detail: 'must belong to a template of the organization in the path',
        },
      ],
    });
  }
  if (template.deprecated) {
    throw new AppError(
      'invalid',
      `Template "${template.name}" has been deprecated, and cannot be used to create a new workspace.`,
      {
        detail: template.deprecated,
      },
    );
  }
  if (!(template.organization_id in owner.organizations)) {
    throw new AppError('invalid', `${owner.username} is not a member of the template's organization.`);
  }
  const autostart = checkAutostart(input.autostart_schedule, template);
  const ttl = input.ttl_ms === undefined ? template.default_ttl_ms || null : checkTtl(input.ttl_ms, template);
  // the same in each run of the transaction, since a template's tags can depend on it
  const id = crypto.randomUUID();
  const row = await withAnswers(ctx, (answers) =>
    beginInTurn(ctx, async (tx) => {
      const chosen = versionId ?? template.active_version_id;
      const [, prepared, pooled] = await together([
        heldTemplate(tx, template.id),
        prepareBuild(ctx, tx, answers, template, {
          transition: 'start',
          versionId: chosen,
          ownerId: owner.id,
          presetId: input.template_version_preset_id,
          given: input.rich_parameter_values ?? [],
          last: undefined,
          creates: true,
        }),
        pooledPresets(tx, chosen),
        requireWorkspaceRoom(ctx, tx, owner),
      ]);
      const workspace = {
        template_id: template.id,
        name: input.name,
        autostart_schedule: autostart,
        ttl_ms: ttl,
        automatic_updates: input.automatic_updates ?? 'never',
        next_start_at: nextStart({ ...template, autostart_schedule: autostart }, ctx.clock.now()),
      };
      const { made, ...claimed } = await uniquelyNamed(
        input.name,
        async () =>
          (await claimReady(tx, creatable, prepared, pooled, workspace)) ?? {
            made: await insertWorkspace(tx, creatable, { id, ...workspace }),
          },
      );
      if (taskDisplayName !== '') await setTaskDisplayName(tx, creatable, made.id, taskDisplayName);
      const claims = 'last' in claimed;
      const auditCreation = async () =>
        audit(ctx, tx, {
          resourceType: 'workspace',
          resourceId: made.id,
          target: input.name,
          action: 'create',
          organizationId: template.organization_id,
          status: 201,
          fields: { workspace_owner: owner.username, ...(claims ? { claimed_prebuilt_workspace: true } : {}) },
          after: await auditedWorkspace(tx, made.id),
        });
      await together([
        auditCreation(),
        insertBuild(ctx, tx, answers, orderBuild(ctx, 'start', made), {
          ...prepared,
          ...claimed,
          claims,
          reason: 'initiator',
          logLevel: '',
        }),
      ]);
      // its pool has one less
      if (claims) {
        const left = { workspace_id: made.id, owner_id: PREBUILDS_USER_ID };
        await ctx.events.publish(tx, 'workspace_changed', left);
        await ctx.events.publish(tx, 'app_access_changed', { workspace_id: made.id });
      }
      return (await workspaceById(tx, made.id, viewerOf(ctx)))!;
    }),
  );
  return toWorkspace(ctx, row);
}

/** Keeps the template until the transaction ends. @throws AppError `not_found` if it was deleted */
async function heldTemplate(tx: Tx, templateId: string): Promise<void> {
  if (!(await holdTemplate(tx, templateId))) throw new AppError('not_found', 'Template not found.');
}

/** @throws AppError `conflict` if the owner has a workspace with this name */
async function uniquelyNamed<T>(name: string, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `Workspace ${JSON.stringify(name)} already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
}

async function chosenTemplate(
  ctx: Ctx,
  templateId: string | undefined,
  versionId: string | undefined,
): Promise<SourceTemplate> {
  if (Boolean(templateId) === Boolean(versionId)) {
    throw new AppError('invalid', 'Give either template_id or template_version_id.', {
      validations: [{ field: 'template_id', detail: 'exactly one of template_id and template_version_id is required' }],
    });
  }
  const row = await sourceTemplate(ctx.sql, templateId ? { templateId } : { versionId: versionId! });
  const field = templateId ? 'template_id' : 'template_version_id';
  if (!row)
    throw new AppError('invalid', 'Template not found.', { validations: [{ field, detail: 'template not found' }] });
  return row;
}
