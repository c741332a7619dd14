import { AppError } from '@ropewalk/kit';
import type { Services } from '../context/context.ts';
import type { Outgoing, Send } from './send.ts';

const VERSION = '1.1';
/** How much of a receiver's answer an error shows, in bytes. */
const SHOWN = 500;

/** The body of a webhook, as upstream documents it. */
export async function webhookPayload({ id, template, recipient, labels, targets, rendered }: Outgoing) {
  const { markdownToText } = await import('./markdown.ts');
  return {
    _version: VERSION,
    msg_id: id,
    payload: {
      _version: '1.2',
      notification_name: template.name,
      notification_template_id: template.id,
      user_id: recipient.id,
      user_email: recipient.email,
      user_name: recipient.name || recipient.username,
      user_username: recipient.username,
      actions: rendered.actions,
      labels,
      data: null,
      targets,
    },
    title: rendered.title,
    title_markdown: rendered.title,
    body: markdownToText(rendered.body),
    body_markdown: rendered.body,
  };
}

/** Posts messages to the configured receiver, which answers with a status of 2xx. */
export function webhookSender({ config, version }: Pick<Services, 'config' | 'version'>): Send {
  return async (message: Outgoing, signal: AbortSignal) => {
    const response = await fetch(config.notificationsWebhookEndpoint, {
      method: 'POST',
      redirect: 'error',
      headers: {
        'content-type': 'application/json',
        'user-agent': `coder/${version}`,
        // the same in each attempt, so that a receiver can recognize a message that arrives twice
        'x-message-id': message.id,
      },
      body: JSON.stringify(await webhookPayload(message)),
      signal,
    });
    const { ok, status, body } = response;
    if (ok) {
      await body?.cancel();
      return;
    }
    const reader = body?.getReader();
    const { value } = (await reader?.read()) ?? {};
    await reader?.cancel();
    const shown = value ? `: ${Buffer.from(value).subarray(0, SHOWN).toString('utf8')}` : '';
    throw new AppError('unavailable', `The webhook endpoint answered with status ${status}${shown}`);
  };
}
