import type { Config } from '../../config/options.ts';

/** How mail is sent. An option for notifications overrides the general one. */
export interface SmtpSettings {
  from: string;
  host: string;
  port: number;
  hello: string;
  forceTls: boolean;
  startTls: boolean;
  identity: string;
  username: string;
  password: string;
  passwordFile: string;
  serverName: string;
  skipVerify: boolean;
  caCertFile: string;
  certFile: string;
  certKeyFile: string;
}

const DEFAULT_PORT = 587;

/** The settings, or undefined if no mail server is configured. */
export function smtpSettings(config: Config): SmtpSettings | undefined {
  const smarthost = config.notificationsEmailSmarthost || config.emailSmarthost;
  if (smarthost === '') return undefined;
  const [, host = smarthost, port] = /^(.*?)(?::(\d{1,5}))?$/.exec(smarthost) ?? [];
  return {
    from: config.notificationsEmailFrom || config.emailFrom,
    host: host.replace(/^\[(.*)\]$/, '$1'),
    port: Number(port ?? DEFAULT_PORT),
    hello: config.notificationsEmailHello || config.emailHello,
    forceTls: config.notificationsEmailForceTls || config.emailForceTls,
    startTls: config.notificationsEmailTlsStarttls || config.emailTlsStarttls,
    identity: config.notificationsEmailAuthIdentity || config.emailAuthIdentity,
    username: config.notificationsEmailAuthUsername || config.emailAuthUsername,
    password: config.notificationsEmailAuthPassword || config.emailAuthPassword,
    passwordFile: config.notificationsEmailAuthPasswordFile || config.emailAuthPasswordFile,
    serverName: config.notificationsEmailTlsServerName || config.emailTlsServerName,
    skipVerify: config.notificationsEmailTlsSkipVerify || config.emailTlsSkipVerify,
    caCertFile: config.notificationsEmailTlsCaCertFile || config.emailTlsCaCertFile,
    certFile: config.notificationsEmailTlsCertFile || config.emailTlsCertFile,
    certKeyFile: config.notificationsEmailTlsCertKeyFile || config.emailTlsCertKeyFile,
  };
}
