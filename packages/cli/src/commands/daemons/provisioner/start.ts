import { constants } from 'node:os';
import { join } from 'node:path';
import { AppError } from '@ropewalk/kit';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { VERSION } from '@ropewalk/kit/version';
import type { StopStep } from '@ropewalk/provisioner';
import { clientTls } from '../../../framework/client-tls.ts';
import { readConfig } from '../../../framework/config-dir.ts';
import type { Context } from '../../../framework/context.ts';
import { extraHeaders } from '../../../framework/create-context.ts';
import { command } from '../../../framework/definition.ts';
import { warn } from '../../../framework/io.ts';
import { readSession } from '../../../framework/session-store.ts';
import type { ValuesOf } from '../../../framework/types.ts';
import { expandHome } from '../../../lib/expand-home.ts';
import { orgFlag } from '../../../lib/flags.ts';
import { findOrganization } from '../../../lib/organization.ts';
import { logFlags, loggerOf } from '../logging.ts';
import { programCommand } from '../self.ts';
import { onEverySignal } from '../signals.ts';
import { hideSecrets, takeSecrets } from './handover.ts';
import { checkConcurrency, checkCredentials, daemonNames, daemonTags } from './options.ts';

export const flags = {
  'cache-dir': {
    type: 'string',
    short: 'c',
    env: 'CODER_CACHE_DIRECTORY',
    default: '~/.cache/coder',
    description: 'Directory for downloads, prepared template versions and running builds.',
  },
  tag: {
    type: 'string[]',
    short: 't',
    env: 'CODER_PROVISIONERD_TAGS',
    description:
      'Tag of the daemon, as key=value. A daemon takes a job if it has all tags of the job. May be repeated.',
  },
  'poll-interval': { type: 'duration', env: 'CODER_PROVISIONERD_POLL_INTERVAL', default: '1s', hidden: true },
  'poll-jitter': { type: 'duration', env: 'CODER_PROVISIONERD_POLL_JITTER', default: '100ms', hidden: true },
  psk: {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_PSK',
    description: 'Pre-shared key of the server. Prefer --key.',
  },
  key: {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_KEY',
    description: 'Provisioner key. It sets the organization and the tags of the daemon.',
  },
  name: {
    type: 'string',
    env: 'CODER_PROVISIONER_DAEMON_NAME',
    description:
      'Name of the daemon. After a restart under the same name, the daemon continues its running build. Default: ' +
      'the host name.',
  },
  concurrency: {
    type: 'int',
    env: 'CODER_PROVISIONER_DAEMON_CONCURRENCY',
    default: '1',
    description: 'Number of builds to run at the same time. Each runs in a daemon named <name>-0, <name>-1 and so on.',
  },
  once: {
    type: 'bool',
    env: 'CODER_PROVISIONER_DAEMON_ONCE',
    description: 'Exit after one job.',
  },
  'terraform-binary': {
    type: 'string[]',
    env: 'CODER_PROVISIONER_TERRAFORM_BINARY',
    description:
      'Path of a terraform or tofu program. May be repeated: a job uses the first whose version its template allows. ' +
      'Default: the terraform on PATH, or else a downloaded one.',
  },
  'terraform-download': {
    type: 'string[]',
    env: 'CODER_PROVISIONER_TERRAFORM_DOWNLOAD',
    description:
      'Terraform or tofu to download at the start, as VERSION=URL#sha256:HEX. The URL points to a program, or to ' +
      'a zip archive with one. HEX is the SHA-256 checksum of that file. May be repeated. Jobs prefer the ' +
      'versions of --terraform-binary.',
  },
  'terraform-provider': {
    type: 'string',
    env: 'CODER_TERRAFORM_PROVIDER',
    values: ['built-in', 'registry'],
    default: 'built-in',
    description:
      "Coder provider of templates. built-in: the daemon's own. registry: the one that Terraform installs from its " +
      'registry or a mirror.',
  },
  verbose: {
    type: 'bool',
    short: 'v',
    env: 'CODER_PROVISIONER_DAEMON_VERBOSE',
    description: 'Log debug lines.',
  },
  ...logFlags('CODER_PROVISIONER_DAEMON'),
  'prometheus-enable': {
    type: 'bool',
    env: 'CODER_PROMETHEUS_ENABLE',
    description: 'Serve Prometheus metrics.',
  },
  'prometheus-address': {
    type: 'string',
    env: 'CODER_PROMETHEUS_ADDRESS',
    default: '127.0.0.1:2112',
    description: 'Address for Prometheus metrics, as host:port.',
  },
  experiments: {
    type: 'string[]',
    env: 'CODER_EXPERIMENTS',
    description: 'Experiments to enable. Has no effect: there are none.',
  },
  ...orgFlag,
  handover: { type: 'string', hidden: true },
} as const;

type Given = ValuesOf<typeof flags>;

const STEPS = {
  drain: 'draining: waiting for the running build. Repeat to cancel it',
  cancelActive: 'canceling the running build. Repeat to kill it',
  kill: 'killing the running build',
  abandon: 'exiting immediately',
} as const;

/** `coder provisioner start`, and the deprecated `coder provisionerd start`. */
const help =
  'Takes jobs from the server and runs Terraform for them. Authenticates with a provisioner key, or with the session of ' +
  'the user who is logged in.';

const examples = [
  {
    does: 'Run a daemon with a provisioner key',
    run: 'CODER_PROVISIONER_DAEMON_KEY=<key> coder provisioner start',
  },
  { does: 'Run a daemon for jobs with the tag region=eu', run: 'coder provisioner start --tag region=eu' },
];

export default command({ flags, help, examples }, async (ctx, { flags: given, texts, isSet }) => {
  if (given.handover) return continueWithSecrets(ctx, given.handover);
  checkCredentials(given);
  const concurrency = given.concurrency ?? 1;
  checkConcurrency(concurrency, given.once);
  const names = daemonNames(given.name, concurrency);
  const tags = daemonTags(given.tag);
  const cache = expandHome(given['cache-dir'], ctx.env);
  const again = hideSecrets(cache, ctx.env, texts);
  if (again) return ctx.program.run(again.argv, again.env);
  // Until the daemons run, for example while terraform downloads. As PID 1 of a container, the process would otherwise
  // ignore SIGTERM.
  onEverySignal(['SIGINT', 'SIGTERM', 'SIGHUP'], (name) => process.exit(128 + constants.signals[name]));
  if (given.key && isSet('org')) {
    const from = 'org' in texts ? `--org ${given.org}` : `CODER_ORGANIZATION=${given.org}`;
    warn(ctx, `${from} has no effect: the provisioner key sets the organization.`);
  }
  const log = loggerOf(given);
  const { url, auth, organization } = await whereAndWho(ctx, given);
  const tls = await clientTls(ctx.globals);
  const headers = await extraHeaders(ctx.globals, ctx.env);

  const metrics = given['prometheus-enable'] ? await startMetrics(given['prometheus-address'], names) : undefined;
  if (metrics) log.info('serving metrics', { address: metrics.address });
  const { parseNamedEngine, runDaemonGroup } = await import('@ropewalk/provisioner');
  const group = await runDaemonGroup({
    members: names.map((name) => ({ name, workDir: join(cache, `provisioner-${name}`, 'work') })),
    serverUrl: url.replace(/\/+$/, ''),
    organization,
    tags,
    auth,
    headers,
    tls,
    cacheDir: join(cache, 'tf'),
    terraformBinaries: given['terraform-binary'],
    namedEngines: given['terraform-download']?.map(parseNamedEngine),
    attachProvider: given['terraform-provider'] !== 'registry',
    once: given.once,
    runnerCommand: programCommand('runner'),
    provisionerVersion: VERSION,
    secretValues: [...Object.values(auth), ctx.globals.token, ...ctx.globals.header, ...Object.values(headers)],
    metrics: metrics?.metrics,
    env: ctx.env,
    log,
  });
  const stop = (atLeast?: StopStep) => {
    const idle = group.daemons.every((daemon) => daemon.activeJobs() === 0);
    const step = group.stop(atLeast);
    log.info(idle ? 'exiting: no build is running' : STEPS[step]);
  };
  // a person who interrupts the daemon does not want to wait for a build
  onEverySignal(['SIGTERM', 'SIGHUP'], () => stop());
  onEverySignal(['SIGINT'], () => stop('cancelActive'));
  try {
    releaseMemoryWhenIdle();
    await group.done;
  } finally {
    metrics?.close();
  }
  return 0;
});

/** Continues after hideSecrets, with an environment and arguments that hold no secrets. */
function continueWithSecrets(ctx: Context, file: string): Promise<number> {
  const argv = process.argv.slice(2);
  argv.splice(argv.lastIndexOf('--handover'), 2);
  return ctx.program.run(argv, { ...ctx.env, ...takeSecrets(file) });
}

async function whereAndWho(ctx: Context, given: Given) {
  const url = ctx.globals.url || readConfig(join(ctx.configDir, 'url'));
  if (!url)
    throw new AppError('invalid', 'Missing server URL. Set --url (CODER_URL), or log in with: coder login <url>');
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    const what = JSON.stringify(url);
    throw new AppError('invalid', `Invalid server URL ${what}: it must begin with http:// or https://.`);
  }
  if (given.key) return { url, auth: { key: given.key }, organization: 'default' }; // the key sets the organization
  if (given.psk) return { url, auth: { psk: given.psk }, organization: given.org || 'default' };
  const sessionToken = ctx.globals.token || (await readSession(ctx, url));
  if (!sessionToken)
    throw new AppError(
      'invalid',
      'Missing credentials. Set --key to a provisioner key, or log in with: coder login <url>',
    );
  const { id } = await findOrganization(await ctx.client(), given.org);
  return { url, auth: { sessionToken }, organization: id };
}

async function startMetrics(address: string, names: readonly string[]) {
  const { daemonRegistry, serveMetrics } = await import('./metrics.ts');
  const registry = daemonRegistry(names);
  return { metrics: registry.metrics, ...(await serveMetrics(address, registry.text)) };
}
