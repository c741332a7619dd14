import type { Config } from '../../config/options.ts';
import type { Method } from '../../db/queries/notifications.ts';
import { smtpSettings } from './smtp-settings.ts';
import type { Template } from './templates.ts';

export const METHODS: readonly Method[] = ['smtp', 'webhook', 'inbox'];

/** The methods that this server is configured to use. */
export function configuredMethods(config: Config): Method[] {
  return METHODS.filter((method) => {
    if (method === 'smtp') return smtpSettings(config) !== undefined;
    if (method === 'webhook') return config.notificationsWebhookEndpoint !== '';
    return config.notificationsInboxEnabled;
  });
}

/**
 * How a template is sent: by the chosen or default method, if it is configured, always to the inbox, and by mail if the
 * template says so.
 */
export function methodsFor(config: Config, template: Template, chosen: Method | undefined): Method[] {
  const configured = configuredMethods(config);
  if (template.mailOnly) return configured.filter((method) => method === 'smtp');
  const main = chosen ?? (config.notificationsMethod as Method);
  return configured.filter(
    (method) => method === main || method === 'inbox' || (template.alsoByMail === true && method === 'smtp'),
  );
}

/** Upstream's names for the results of an attempt. After a temporary failure comes another attempt. */
export type DispatchResult = 'success' | 'temp_fail' | 'perm_fail';
/** Receives the beginning of each attempt to send a message, and returns what receives its end. Neither throws. */
export type OnDispatch = (attempt: {
  method: Method;
  templateId: string;
  /** From 1. */
  number: number;
  /** Since the message was queued. */
  queuedSeconds: number;
}) => (result: DispatchResult) => void;
