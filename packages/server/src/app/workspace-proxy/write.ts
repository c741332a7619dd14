import type {
  CreateWorkspaceProxyRequest,
  PatchWorkspaceProxy,
  Response,
  UpdateWorkspaceProxyResponse,
} from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { checkDisplayName, checkVersionName } from '@ropewalk/rules';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { isPgError, type Tx, UNIQUE_VIOLATION } from '../../db/connect.ts';
import {
  deleteWorkspaceProxy as deleteRow,
  insertWorkspaceProxy,
  updateWorkspaceProxy as updateRow,
} from '../../db/queries/workspace-proxies.ts';
import type { WorkspaceProxyRow } from '../../db/rows.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { requireWorkspaceProxyRoom } from '../context/limits.ts';
import { beginInTurn } from '../lists/turns.ts';
import { isUuid } from '../values/ids.ts';
import { newProxyToken } from './credential.ts';
import { PROXIES_CHANGE, type ProxyHealth } from './health.ts';
import { findWorkspaceProxy, isPrimary, PRIMARY, primaryProxy, primarySettings, toWorkspaceProxy } from './read.ts';

type Fields = Pick<WorkspaceProxyRow, 'name' | 'display_name' | 'icon'>;

/** The names that paths use for something else. */
const RESERVED: readonly string[] = [PRIMARY, 'me'];

function checkProxyName(name: string): void {
  const rejected = (detail: string) =>
    new AppError('invalid', `Invalid name: ${detail}`, { validations: [{ field: 'name', detail }] });
  if (RESERVED.includes(name.toLowerCase())) throw rejected(`"${name}" is reserved`);
  // paths name proxies by id, too
  if (isUuid(name)) throw rejected('must not be a UUID');
  checkVersionName('name', name);
}

const entryOf = ({ id, name, icon }: WorkspaceProxyRow) => ({
  resourceType: 'workspace_proxy',
  resourceId: id,
  target: name,
  icon,
});

/** A row for the audit log. With a new secret it differs in that, which no entry shows. */
const withSecret = (row: WorkspaceProxyRow, token: string) => ({ ...row, token_hashed_secret: token });

/** Changes proxies and announces it, so that every server checks their health, and pages show it. */
async function change<T>(ctx: Ctx, name: string, run: (tx: Tx) => Promise<T>): Promise<T> {
  try {
    return await beginInTurn(ctx, async (tx) => {
      const result = await run(tx);
      await ctx.events.publish(tx, 'workspace_proxies_changed', {});
      await ctx.events.publish(tx, 'object_changed', PROXIES_CHANGE);
      return result;
    });
  } catch (err) {
    if (!isPgError(err, UNIQUE_VIOLATION)) throw err;
    throw new AppError('conflict', `Workspace proxy with name "${name}" already exists.`, {
      validations: [{ field: 'name', detail: 'This value is already in use and should be unique.' }],
    });
  }
}

/** Creates a proxy. Only this response contains its token. */
export async function createWorkspaceProxy(
  ctx: Ctx,
  health: ProxyHealth,
  input: CreateWorkspaceProxyRequest,
): Promise<UpdateWorkspaceProxyResponse> {
  const allowed = authorize(ctx, 'create', { type: 'workspace_proxy' });
  const { name, display_name = '', icon = '' } = input;
  checkProxyName(name);
  checkDisplayName('display_name', display_name);
  const id = crypto.randomUUID();
  const token = newProxyToken(id);
  const row = await change(ctx, name, async (tx) => {
    await requireWorkspaceProxyRoom(tx);
    const made = await insertWorkspaceProxy(tx, allowed, {
      id,
      name,
      display_name,
      icon,
      hashed_secret: token.hashedSecret,
    });
    await audit(ctx, tx, { ...entryOf(made), action: 'create', status: 201, after: withSecret(made, 'new') });
    return made;
  });
  return { proxy: toWorkspaceProxy(row, health), proxy_token: token.text };
}

/** Changes a proxy, or replaces its token. The old token is invalid from then on. */
export async function updateWorkspaceProxy(
  ctx: Ctx,
  health: ProxyHealth,
  name: string,
  input: PatchWorkspaceProxy,
): Promise<UpdateWorkspaceProxyResponse> {
  if (isPrimary(ctx, name)) return updatePrimary(ctx, input);
  const found = await findWorkspaceProxy(ctx, 'update', name);
  const fieldsOf = (row: Fields): Fields => ({
    name: input.name ?? row.name,
    display_name: input.display_name ?? row.display_name,
    icon: input.icon ?? row.icon,
  });
  const { name: wanted, display_name } = fieldsOf(found);
  if (wanted !== found.name) checkProxyName(wanted);
  checkDisplayName('display_name', display_name);
  const token = input.regenerate_token ? newProxyToken(found.id) : undefined;
  const row = await change(ctx, wanted, async (tx) => {
    const before = await findWorkspaceProxy(ctx, 'update', found.id, tx);
    const after = await updateRow(tx, before, fieldsOf(before), token?.hashedSecret);
    if (!after) throw notFound();
    await audit(ctx, tx, {
      ...entryOf(after),
      action: 'write',
      before: withSecret(before, 'old'),
      after: withSecret(after, token ? 'new' : 'old'),
    });
    return after;
  });
  return { proxy: toWorkspaceProxy(row, health), proxy_token: token?.text ?? '' };
}

async function updatePrimary(ctx: Ctx, input: PatchWorkspaceProxy): Promise<UpdateWorkspaceProxyResponse> {
  authorize(ctx, 'update', { type: 'workspace_proxy', id: ctx.deploymentId });
  const rejected = (message: string, validations: { field: string; detail: string }[]) =>
    new AppError('invalid', message, { validations });
  const { name = PRIMARY, display_name = '', icon = '' } = input;
  if (name !== PRIMARY)
    throw rejected('The primary region cannot have another name. Set its display name.', [
      { field: 'name', detail: `must be "${PRIMARY}"` },
    ]);
  if (input.regenerate_token)
    throw rejected('The primary region has no token.', [{ field: 'regenerate_token', detail: 'must be false' }]);
  if (display_name === '' && icon === '')
    throw rejected('Nothing to change.', [
      { field: 'display_name', detail: 'must be given, unless the icon is' },
      { field: 'icon', detail: 'must be given, unless the display name is' },
    ]);
  checkDisplayName('display_name', display_name);
  const before = await primarySettings.read(ctx);
  const after = { display_name: display_name || before.display_name, icon: icon || before.icon };
  await primarySettings.replace(ctx, after, { target: PRIMARY });
  return { proxy: await primaryProxy(ctx), proxy_token: '' };
}

/** Deletes a proxy. Its token is invalid from then on, and its processes are forgotten. */
export async function deleteWorkspaceProxy(ctx: Ctx, name: string): Promise<Response> {
  if (isPrimary(ctx, name)) {
    authorize(ctx, 'delete', { type: 'workspace_proxy', id: ctx.deploymentId });
    throw new AppError('invalid', 'The primary region cannot be deleted.');
  }
  const found = await findWorkspaceProxy(ctx, 'delete', name);
  await change(ctx, found.name, async (tx) => {
    if (!(await deleteRow(tx, found))) throw notFound();
    await audit(ctx, tx, { ...entryOf(found), action: 'delete', before: withSecret(found, 'old') });
  });
  return { message: 'The workspace proxy was deleted.' };
}
