/** A person's own accounts at external auth providers: list, connect, disconnect. */
import type {
  DeleteExternalAuthByIDResponse,
  ExternalAuth,
  ExternalAuthDevice,
  ExternalAuthLink,
  ListUserExternalAuthResponse,
} from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import type { ExternalAuthProvider } from '../../config/external-auth.ts';
import {
  deleteExternalAuthLink,
  type ExternalAuthLinkRow,
  externalAuthLink,
  externalAuthLinksOf,
  saveExternalAuthLink,
} from '../../db/queries/external-auth-links.ts';
import { isStored } from '../../db/sealed.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { NEVER, time } from '../values/time.ts';
import { findProvider, type LinkState, sealTokens, validLink } from './links.ts';
import { appInstallations, exchangeDeviceCode, type LinkTokens, revokeTokens, startDevice } from './oauth.ts';

/** @throws AppError `not_found` if the server has no such provider */
export function providerOf(ctx: Pick<Ctx, 'config'>, id: string): ExternalAuthProvider {
  const provider = findProvider(ctx, id);
  if (!provider) {
    throw new AppError('not_found', `This server has no external auth provider "${id}".`, {
      detail: 'Check the id, or ask an administrator to configure the provider.',
    });
  }
  return provider;
}

/** The state of a link. A provider that does not answer counts as a problem. */
async function stateOf(ctx: Ctx, provider: ExternalAuthProvider, link: ExternalAuthLinkRow): Promise<LinkState> {
  try {
    return await validLink(ctx, provider, link);
  } catch (err) {
    if (!(err instanceof AppError)) throw err;
    return { link, problem: [err.message, err.detail].filter(Boolean).join(' ') };
  }
}

function toLink({ link, problem }: LinkState): ExternalAuthLink {
  return {
    provider_id: link.provider_id,
    created_at: time(link.created_at),
    updated_at: time(link.updated_at),
    has_refresh_token: isStored(link.refresh_token),
    expires: link.expires_at ? time(link.expires_at) : NEVER,
    authenticated: problem === undefined,
    validate_error: problem ?? '',
  };
}

/** All providers, and the person's links with them. Links with providers that were removed are left out. */
export async function listAccounts(ctx: Ctx): Promise<ListUserExternalAuthResponse> {
  const user = await findUser(ctx, 'read_personal', 'me');
  const links = await externalAuthLinksOf(ctx.sql, user.id);
  const states = await Promise.all(
    links.flatMap((link) => {
      const provider = findProvider(ctx, link.provider_id);
      return provider ? [stateOf(ctx, provider, link)] : [];
    }),
  );
  return {
    providers: ctx.config.externalAuth.map((provider) => ({
      id: provider.id,
      type: provider.type,
      device: provider.device_flow,
      display_name: provider.display_name,
      display_icon: provider.display_icon,
      allow_refresh: !provider.no_refresh,
      allow_validate: provider.validate_url !== '',
      supports_revocation: provider.revoke_url !== '',
    })),
    links: states.map(toLink),
  };
}

export async function getAccount(ctx: Ctx, id: string): Promise<ExternalAuth> {
  const provider = providerOf(ctx, id);
  const user = await findUser(ctx, 'read_personal', 'me');
  const link = await externalAuthLink(ctx.sql, user.id, provider.id);
  const state = link && (await stateOf(ctx, provider, link));
  const authenticated = state !== undefined && state.problem === undefined;
  const installations = authenticated
    ? await appInstallations(provider, ctx.vault.open(state.link.access_token)).catch((err) => {
        ctx.log.warn('could not list app installations', { provider: id, err: errorText(err) });
        return undefined;
      })
    : undefined;
  return {
    authenticated,
    device: provider.device_flow,
    display_name: provider.display_name,
    user: state?.user ?? null,
    app_install_url: provider.app_install_url,
    app_installable: installations !== undefined,
    installations: installations ?? [],
    supports_revocation: provider.revoke_url !== '',
    ...(state?.problem === undefined ? {} : { validate_error: state.problem }),
  };
}

/** Stores the tokens of an account that the person has just connected. */
export async function connectAccount(ctx: Ctx, provider: ExternalAuthProvider, tokens: LinkTokens): Promise<void> {
  const user = await findUser(ctx, 'update_personal', 'me');
  await ctx.sql.begin(async (tx) => {
    await saveExternalAuthLink(tx, user, provider.id, sealTokens(ctx, tokens));
    await audit(ctx, tx, {
      resourceType: 'user',
      resourceId: user.id,
      target: user.username,
      action: 'write',
      fields: { external_auth_connected: provider.id },
    });
  });
}

/** Removes the person's link, then asks the provider to end its token. */
export async function disconnectAccount(ctx: Ctx, id: string): Promise<DeleteExternalAuthByIDResponse> {
  const user = await findUser(ctx, 'update_personal', 'me');
  const link = await ctx.sql.begin(async (tx) => {
    const removed = await deleteExternalAuthLink(tx, user, id);
    if (removed) {
      await audit(ctx, tx, {
        resourceType: 'user',
        resourceId: user.id,
        target: user.username,
        action: 'write',
        fields: { external_auth_disconnected: id },
      });
    }
    return removed;
  });
  if (!link) throw new AppError('not_found', `You have no account connected at "${id}".`);
  const provider = findProvider(ctx, id);
  if (!provider || provider.revoke_url === '') return { token_revoked: false };
  const problem = await revokeTokens(provider, {
    access_token: ctx.vault.open(link.access_token),
    refresh_token: ctx.vault.open(link.refresh_token),
  });
  if (problem === undefined) return { token_revoked: true };
  ctx.log.info('an external auth provider did not revoke a token', { provider: id, err: problem });
  return { token_revoked: false, token_revocation_error: problem };
}

async function deviceProvider(ctx: Ctx, id: string): Promise<ExternalAuthProvider> {
  await findUser(ctx, 'update_personal', 'me');
  const provider = providerOf(ctx, id);
  if (!provider.device_flow) {
    throw new AppError('invalid', `${provider.display_name} is not configured to connect with a code.`);
  }
  return provider;
}

export async function startDeviceFlow(ctx: Ctx, id: string): Promise<ExternalAuthDevice> {
  return startDevice(await deviceProvider(ctx, id));
}

export async function finishDeviceFlow(ctx: Ctx, id: string, code: string): Promise<undefined> {
  const provider = await deviceProvider(ctx, id);
  await connectAccount(ctx, provider, await exchangeDeviceCode(ctx, provider, code));
  return undefined;
}
