import { hostname } from 'node:os';
import { join } from 'node:path';
import { isSea } from 'node:sea';
import { AppError, createLogger, type LogSink, pathSink } from '@platform/kit';
import { readConfig } from '../../framework/config-dir.ts';
import { command } from '../../framework/definition.ts';
import { findOrganization, orgFlag } from '../../lib/organization.ts';
import { namedValues } from '../../lib/values.ts';
import { expandHome } from '../../run.ts';
import { selfCommand } from './self.ts';
import { onEverySignal } from './signals.ts';
import { VERSION } from './version.ts';

const flags = {
  'cache-dir': {
    type: 'string',
    short: 'c',
    env: 'CODER_CACHE_DIRECTORY',
    default: '~/.cache/coder',
    description: 'Where downloads, prepared template versions and running builds are kept.',
  },
  tag: { type: 'string[]', short: 't', env: 'CODER_PROVISIONERD_TAGS', description: 'A tag, as key=value.' },
  'poll-interval': { type: 'duration', env: 'CODER_PROVISIONERD_POLL_INTERVAL', default: '1s', hidden: true },
  'poll-jitter': { type: 'duration', env: 'CODER_PROVISIONERD_POLL_JITTER', default: '100ms', hidden: true },
  psk: {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_PSK',
    description: 'The pre-shared key of the server. Prefer --key.',
  },
  key: { type: 'string', env: 'CODER_PROVISIONER_DAEMON_KEY', description: 'A provisioner key.' },
  name: {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_NAME',
    description: 'Its name, which it must keep to have its running build back. Default: the name of the host.',
  },
  verbose: { type: 'bool', env: 'CODER_PROVISIONER_DAEMON_VERBOSE', description: 'Log at debug level.' },
  'log-human': {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_LOGGING_HUMAN',
    default: '/dev/stderr',
    description: 'Where to write logs for people.',
  },
  'log-json': {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_LOGGING_JSON',
    description: 'Where to write logs as JSON lines.',
  },
  ...orgFlag,
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const { globals } = ctx;
  if (given.key && given.psk) throw new AppError('invalid', 'Give either --key or --psk.');
  if (given.key && given.tag.length > 0)
    throw new AppError('invalid', 'The tags are those of the key: leave --tag out.');
  const url = globals.url || readConfig(join(ctx.configDir, 'url'));
  if (!url) throw new AppError('invalid', 'Which server? Give its URL with --url (CODER_URL), or log in.');
  const token = globals.token || readConfig(join(ctx.configDir, 'session'));
  let organization = given.org || 'default';
  if (!given.key && !given.psk) organization = (await findOrganization(await ctx.client(), given.org)).id;
  const sinks = [pathSink(given['log-human'], 'human'), pathSink(given['log-json'], 'json')];
  const log = createLogger({
    level: given.verbose ? 'debug' : 'info',
    sinks: sinks.filter((sink): sink is LogSink => sink !== undefined),
  });
  const { runProvisionerDaemon } = await import('@platform/provisioner');
  const cache = expandHome(given['cache-dir'], ctx.env);
  const name = given.name || hostname().split('.')[0]!.toLowerCase();
  const daemon = runProvisionerDaemon({
    serverUrl: url.replace(/\/+$/, ''),
    organization,
    name,
    tags: Object.fromEntries(namedValues(given.tag, 'tag').map((one) => [one.name, one.value])),
    auth: given.key ? { key: given.key } : given.psk ? { psk: given.psk } : { sessionToken: token },
    headers: Object.fromEntries(namedValues(globals.header, 'header').map((one) => [one.name, one.value])),
    workDir: join(cache, `provisioner-${name}`, 'work'),
    cacheDir: join(cache, 'tf'),
    runnerCommand: isSea() ? selfCommand('provisioner', 'runner') : undefined,
    provisionerVersion: VERSION,
    secretValues: [given.key, given.psk, token].filter((one) => one !== ''),
    env: ctx.env,
    log,
  });
  let asked = 0;
  onEverySignal(['SIGINT', 'SIGTERM'], () => {
    const step = Math.min(asked++, 2);
    log.info(['draining: the running build is finished first', 'canceling the running build', 'killing it'][step]!);
    [() => daemon.drain(), () => daemon.cancelActive(), () => daemon.kill()][step]!();
  });
  await daemon.done;
});
