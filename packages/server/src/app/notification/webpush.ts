/**
 * Web push: messages to browsers whose pages are closed. A browser gives its person's account an address of its push
 * service, and keys with which the server encrypts, so that the push service cannot read the message. The server proves
 * to the push service that it is the one that the browser subscribed to, with a key pair of this installation (VAPID).
 */
import { createECDH } from 'node:crypto';
import type { WebpushSubscription } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import { systemTask } from '../../authz/proofs.ts';
import type { Db } from '../../db/connect.ts';
import { replaceSiteValue, siteValue } from '../../db/queries/site.ts';
import {
  deleteAllSubscriptions,
  deleteEndedSubscription,
  deleteWebpushSubscription,
  saveWebpushSubscription,
  type WebpushSubscriptionRow,
  webpushSubscriptionsOf,
} from '../../db/queries/webpush.ts';
import { type Ctx, type Services, systemContext } from '../context/context.ts';
import { findUser } from '../find/user.ts';
import { boundedFetch } from '../outbound/fetch.ts';
import { namesPrivateAddress, publicDispatcher } from '../outbound/public-address.ts';

/** What a browser shows. The names are upstream's. */
export interface WebpushMessage {
  title: string;
  body: string;
  icon: string;
  actions: { label: string; url: string }[];
}

/** The maximum number of browsers of a person. */
const MAX_BROWSERS = 20;
/** How long a push service keeps a message for a browser that is off, in seconds. */
const KEPT_SECONDS = 24 * 3_600;
/** A push service takes 4 KiB, of which encryption needs some. */
const MAX_BODY_CHARACTERS = 1_000;
const KEYS = 'vapid_keys';

interface VapidKeys {
  publicKey: string;
  privateKey: string;
}

const system = (services: Services) => systemTask(systemContext(services, 'web push'));

function newVapidKeys(): VapidKeys {
  const pair = createECDH('prime256v1');
  return { publicKey: pair.generateKeys('base64url'), privateKey: pair.getPrivateKey('base64url') };
}

async function vapidKeys(services: Services, db: Db = services.sql): Promise<VapidKeys> {
  const text = await siteValue(db, system(services), KEYS, () => JSON.stringify(newVapidKeys()));
  return JSON.parse(text) as VapidKeys;
}

/** Replaces the key pair, which ends all subscriptions. Returns how many. */
export function renewVapidKeys(ctx: Ctx): Promise<number> {
  return ctx.sql.begin(async (tx) => {
    const from = JSON.stringify(await vapidKeys(ctx, tx));
    await replaceSiteValue(tx, system(ctx), KEYS, { from, to: JSON.stringify(newVapidKeys()) });
    return deleteAllSubscriptions(tx, system(ctx));
  });
}

/** The key that browsers subscribe with. */
export const webpushPublicKey = async (services: Services): Promise<string> => (await vapidKeys(services)).publicKey;

export async function subscribe(ctx: Ctx, name: string, input: WebpushSubscription): Promise<undefined> {
  const user = await findUser(ctx, 'read', name);
  const owner = authorize(ctx, 'create', { type: 'webpush_subscription', ownerId: user.id });
  const { endpoint, p256dh_key, auth_key } = input;
  const problem = (field: string, detail: string) =>
    new AppError('invalid', `Invalid push subscription: ${field} ${detail}.`, { validations: [{ field, detail }] });
  const target = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (target?.protocol !== 'https:' || target.username !== '') throw problem('endpoint', 'must be an https:// address');
  if (namesPrivateAddress(target) && !ctx.config.dangerousAllowPrivatePushAddresses)
    throw problem('endpoint', 'must be a public address');
  if (Buffer.from(p256dh_key, 'base64url').length !== 65) throw problem('p256dh_key', 'must be 65 bytes in base64url');
  if (Buffer.from(auth_key, 'base64url').length !== 16) throw problem('auth_key', 'must be 16 bytes in base64url');
  await saveWebpushSubscription(ctx.sql, owner, { endpoint, p256dh_key, auth_key }, MAX_BROWSERS);
  return undefined;
}

export async function unsubscribe(ctx: Ctx, name: string, endpoint: string): Promise<undefined> {
  const user = await findUser(ctx, 'read', name);
  const owner = authorize(ctx, 'delete', { type: 'webpush_subscription', ownerId: user.id });
  if (!(await deleteWebpushSubscription(ctx.sql, owner, endpoint)))
    throw new AppError('not_found', 'This browser is not subscribed.');
  return undefined;
}

/** Pushes a test message to the person's browsers. */
export async function sendTestPush(ctx: Ctx, name: string): Promise<undefined> {
  const user = await findUser(ctx, 'read', name);
  authorize(ctx, 'create', { type: 'webpush_subscription', ownerId: user.id });
  const url = `${ctx.accessUrl}/settings/notifications`;
  const actions = [{ label: 'Notification settings', url }];
  const failed = await pushTo(ctx, user.id, {
    title: 'It works',
    body: 'This browser gets your notifications.',
    icon: '',
    actions,
  });
  if (failed.length > 0) {
    throw new AppError('unavailable', 'The message could not be pushed. Subscribe this browser again.', {
      detail: failed.join('; '),
    });
  }
  return undefined;
}

/** A message whose text is rendered only if a browser gets it. */
type UnrenderedMessage = Omit<WebpushMessage, 'body'> & { body: () => Promise<string> };

/** Pushes a message to the browsers of a person. Returns why some of them did not get it. Never fails. */
export async function pushTo(
  services: Services,
  userId: string,
  message: WebpushMessage | UnrenderedMessage,
): Promise<string[]> {
  const { sql, log } = services;
  try {
    const browsers = await webpushSubscriptionsOf(sql, userId);
    if (browsers.length === 0) return [];
    const keys = await vapidKeys(services);
    const body = typeof message.body === 'string' ? message.body : await message.body();
    const text = JSON.stringify({ ...message, body: body.slice(0, MAX_BODY_CHARACTERS) });
    const results = await Promise.all(
      browsers.map((browser) => push(services, keys, browser, text).then(() => '', reasonOf)),
    );
    const failed = results.filter((result) => result !== '');
    if (failed.length > 0) log.warn('could not push a notification to browsers', { user_id: userId, err: failed[0] });
    return failed;
  } catch (err) {
    log.warn('could not push a notification', { user_id: userId, err: errorText(err) });
    return [errorText(err)];
  }
}

/** Why a message was not pushed. `fetch` hides it, and what the network answered is not for the person. */
const reasonOf = (err: unknown): string =>
  errorText(err instanceof Error && err.cause instanceof AppError ? err.cause : err);

let dispatcher: ReturnType<typeof publicDispatcher> | undefined;

async function push(services: Services, keys: VapidKeys, browser: WebpushSubscriptionRow, text: string): Promise<void> {
  // loaded with the first message
  const { default: webpush } = await import('web-push');
  const { id, endpoint, p256dh_key: p256dh, auth_key: auth } = browser;
  const { headers, body } = webpush.generateRequestDetails({ endpoint, keys: { p256dh, auth } }, text, {
    TTL: KEPT_SECONDS,
    vapidDetails: { subject: contactOf(services), ...keys },
  });
  // the length is fetch's own
  const { 'Content-Length': _, ...sent } = headers;
  const anywhere = services.config.dangerousAllowPrivatePushAddresses;
  if (!anywhere) dispatcher ??= publicDispatcher();
  const { status } = await boundedFetch(endpoint, {
    method: 'POST',
    headers: sent as Record<string, string>,
    body,
    dispatcher: anywhere ? undefined : await dispatcher,
  });
  if (status === 404 || status === 410) await deleteEndedSubscription(services.sql, system(services), id);
  else if (status >= 300)
    throw new AppError('unavailable', `${new URL(endpoint).host} answered with status ${status}.`);
}

/** How a push service reaches the operator: an https address, or one for email. */
const contactOf = ({ accessUrl }: Pick<Services, 'accessUrl'>): string =>
  accessUrl.startsWith('https:') ? accessUrl : 'mailto:webpush@localhost.invalid';
