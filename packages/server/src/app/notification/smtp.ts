import { readFile } from 'node:fs/promises';
import { AppError } from '@ropewalk/kit';
import type { Services } from '../context/context.ts';
import { type Outgoing, PermanentFailure, type Send } from './send.ts';
import { type SmtpSettings, smtpSettings } from './smtp-settings.ts';

/** Reads a file of the settings each time, so that a renewed certificate or password needs no restart. */
async function contents(path: string): Promise<string | undefined> {
  return path === '' ? undefined : readFile(path, 'utf8');
}

async function transportOptions(settings: SmtpSettings, timeoutMs: number) {
  const { host, port, hello, forceTls, startTls, username, serverName, skipVerify, identity } = settings;
  const [password, ca, cert, key] = await Promise.all([
    contents(settings.passwordFile).then((text) => text?.replace(/\r?\n$/, '') ?? settings.password),
    contents(settings.caCertFile),
    contents(settings.certFile),
    contents(settings.certKeyFile),
  ]);
  const plain = Buffer.from(`${identity}\0${username}\0${password}`).toString('base64');
  return {
    host,
    port,
    name: hello || 'localhost',
    secure: forceTls,
    requireTLS: startTls && !forceTls,
    ignoreTLS: !startTls && !forceTls,
    tls: {
      rejectUnauthorized: !skipVerify,
      ...(serverName ? { servername: serverName } : {}),
      ...(ca ? { ca } : {}),
      ...(cert ? { cert } : {}),
      ...(key ? { key } : {}),
    },
    ...(username === ''
      ? {}
      : identity === ''
        ? { auth: { user: username, pass: password } }
        : {
            // PLAIN with an identity to act as, which the library has no option for
            auth: { type: 'custom' as const, method: 'PLAIN', user: username, pass: password },
            customAuth: {
              PLAIN: async (ctx: { sendCommand(text: string): Promise<{ status: number; response: string }> }) => {
                const { status, response } = await ctx.sendCommand(`AUTH PLAIN ${plain}`);
                if (status < 200 || status >= 300) throw new Error(`The mail server rejected the sign-in: ${response}`);
              },
            },
          }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** A message of a person cannot be delivered by another attempt: the server rejects the address or the content. */
function isPermanent(err: unknown): boolean {
  const { responseCode, command } = err as { responseCode?: number; command?: string };
  return responseCode !== undefined && responseCode >= 500 && /^(RCPT|DATA)/.test(command ?? '');
}

/** Sends messages by mail, each on a separate connection. */
export function smtpSender({ config, accessUrl }: Pick<Services, 'config' | 'accessUrl'>): Send {
  const timeoutMs = config.notificationsDispatchTimeout;
  return async (message: Outgoing, signal: AbortSignal) => {
    const settings = smtpSettings(config);
    if (!settings) throw new AppError('precondition', 'No mail server is configured: set --email-smarthost.');
    if (settings.from === '') throw new AppError('precondition', 'No sender is configured: set --email-from.');
    // loaded for servers that send mail
    const [{ createTransport }, { emailHtml }, { markdownToText }] = await Promise.all([
      import('nodemailer'),
      import('./email-html.ts'),
      import('./markdown.ts'),
    ]);
    const transport = createTransport((await transportOptions(settings, timeoutMs)) as never);
    const stop = () => transport.close();
    signal.addEventListener('abort', stop, { once: true });
    const { title, body, actions } = message.rendered;
    const links = actions.map(({ label, url }) => `${label}: ${url}`).join('\n');
    try {
      await Promise.race([
        transport.sendMail({
          from: settings.from,
          to: { name: message.recipient.name || message.recipient.username, address: message.recipient.email },
          subject: title,
          text: `${markdownToText(body)}\n${links ? `\n${links}\n` : ''}\n--\n${accessUrl}/settings/notifications\n`,
          html: emailHtml(message.rendered, accessUrl),
          // the same in each attempt, so that a mailbox can recognize a message that arrives twice
          messageId: `<${message.id}@${new URL(accessUrl).hostname}>`,
          date: message.createdAt,
          headers: { 'X-Auto-Response-Suppress': 'All', 'Auto-Submitted': 'auto-generated' },
        }),
        new Promise<never>((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        }),
      ]);
    } catch (err) {
      throw isPermanent(err) ? new PermanentFailure((err as Error).message) : err;
    } finally {
      signal.removeEventListener('abort', stop);
      transport.close();
    }
  };
}
