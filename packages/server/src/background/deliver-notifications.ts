/**
 * Sends queued messages. Each method has a separate background task on every server, so that a mail server that is
 * away delays no webhook. A server takes messages for the time of a lease, which is longer than one attempt may take. If
 * it dies, another one takes the message when the lease ends: no message is lost. A message that was sent is marked at
 * once, and its id is the same in every attempt, so that a receiver can recognize one that came twice because the server
 * died between the two.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '@ropewalk/kit';
import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { METHODS, type OnDispatch } from '../app/notification/methods.ts';
import { render } from '../app/notification/render.ts';
import { type Outgoing, PermanentFailure, type Send } from '../app/notification/send.ts';
import { isPaused } from '../app/notification/settings.ts';
import { smtpSender } from '../app/notification/smtp.ts';
import { templateById } from '../app/notification/templates.ts';
import { webhookSender } from '../app/notification/webhook.ts';
import { pushTo } from '../app/notification/webpush.ts';
import { systemTask } from '../authz/proofs.ts';
import {
  deliverToInbox,
  type LeasedMessage,
  leaseMessages,
  type Method,
  markFailed,
  markSent,
  nextMessageMs,
} from '../db/queries/notifications.ts';

/** How often to look without the event of a new message: an event may be lost. */
const PERIOD_MS = 15_000;
const AT_ONCE = 10;
/** A lease is this much longer than one attempt may take. */
const LEASE_FACTOR = 2;
const LONGEST_RETRY_MS = 60 * 60_000;
/** How often, and after which time, to try again to mark a message as sent. */
const MARK_TRIES = 5;
const MARK_AGAIN_MS = 1_000;
const NAMES: Readonly<Record<Method, string>> = {
  smtp: 'send emails',
  webhook: 'send webhooks',
  inbox: 'fill inboxes',
};

export function notificationTasks(services: Services, onDispatch: OnDispatch = () => () => {}): BackgroundTask[] {
  return METHODS.map((method) => deliveryTask(services, method, onDispatch));
}

function deliveryTask(services: Services, method: Method, onDispatch: OnDispatch): BackgroundTask {
  const { sql, events, config, log } = services;
  const name = NAMES[method];
  const by = systemTask(systemContext(services, name));
  const timeoutMs = config.notificationsDispatchTimeout;
  const leaseMs = Math.max(config.notificationsLeasePeriod, timeoutMs * LEASE_FACTOR);
  const send = method === 'inbox' ? undefined : method === 'smtp' ? smtpSender(services) : webhookSender(services);

  async function toInbox(leased: LeasedMessage, message: Outgoing): Promise<void> {
    const { template, rendered, recipient } = message;
    const { title, actions } = rendered;
    const isNew = await sql.begin(async (tx) => {
      const inbox = { ...rendered, icon: template.icon };
      if (!(await deliverToInbox(tx, by, leased, inbox))) return false;
      await events.publish(tx, 'object_changed', { kind: 'notification', id: recipient.id, owner_id: recipient.id });
      return true;
    });
    // a push service that is slow delays no inbox
    const body = async () => (await import('../app/notification/markdown.ts')).markdownToText(rendered.body);
    if (isNew) void pushTo(services, recipient.id, { title, body, icon: '', actions });
  }

  async function bySender(leased: LeasedMessage, message: Outgoing, sender: Send, signal: AbortSignal): Promise<void> {
    const timeout = AbortSignal.timeout(timeoutMs);
    await sender(message, AbortSignal.any([signal, timeout])).catch((err) => {
      throw timeout.aborted ? new Error(`it took longer than ${timeoutMs} ms`) : err;
    });
    for (let tries = 1; ; tries++) {
      try {
        await markSent(sql, by, leased);
        return;
      } catch (err) {
        // it was sent: while the lease lasts, nobody sends it again
        if (tries === MARK_TRIES) throw err;
        await delay(MARK_AGAIN_MS, undefined, { signal });
      }
    }
  }

  async function attempt(leased: LeasedMessage, signal: AbortSignal): Promise<void> {
    const template = templateById(leased.template_id);
    const queuedSeconds = Math.max(0, services.clock.now().getTime() - leased.created_at.getTime()) / 1_000;
    const over = onDispatch({ method, templateId: leased.template_id, number: leased.attempts, queuedSeconds });
    try {
      if (!template) throw new PermanentFailure('the template does not exist');
      const { user_id: id, username, name: fullName, email, labels, targets } = leased;
      const recipient = { id, username, name: fullName, email };
      const rendered = render(template, { labels, user: recipient, baseUrl: services.accessUrl });
      const message = { id: leased.id, template, recipient, labels, targets, rendered, createdAt: leased.created_at };
      if (send) await bySender(leased, message, send, signal);
      else await toInbox(leased, message);
      over('success');
    } catch (err) {
      // the server ends: the message is due again when its lease ends
      if (signal.aborted) return;
      const last = err instanceof PermanentFailure || leased.attempts >= config.notificationsMaxSendAttempts;
      const retryMs = last
        ? undefined
        : Math.min(config.notificationsRetryInterval * 2 ** (leased.attempts - 1), LONGEST_RETRY_MS);
      const error = errorText(err).slice(0, 1_000);
      over(last ? 'perm_fail' : 'temp_fail');
      log.warn('a notification was not sent', {
        method,
        message_id: leased.id,
        template: template?.name,
        attempt: leased.attempts,
        ...(retryMs === undefined ? { given_up: true } : { retry_ms: retryMs }),
        err: error,
      });
      await markFailed(sql, by, leased, { error, retryMs });
    }
  }

  return {
    name,
    periodMs: PERIOD_MS,
    needsLock: false,
    // many messages, each within its own time
    timeoutMs: Math.max(10 * 60_000, 10 * timeoutMs),
    wakeOn: (wake) => [events.on('notifications_queued', wake)],
    async run(signal) {
      if (await isPaused(services)) return undefined;
      for (;;) {
        const leased = await leaseMessages(sql, by, { method, most: AT_ONCE, leaseMs });
        await Promise.all(leased.map((each) => attempt(each, signal)));
        if (signal.aborted || leased.length < AT_ONCE) break;
      }
      const next = await nextMessageMs(sql, method);
      return next === undefined ? undefined : Math.max(50, next);
    },
  };
}
