import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { ownValue } from '@ropewalk/kit/own-value';
import { command } from '../../../framework/definition.ts';
import { print } from '../../../framework/io.ts';
import type { FlagDef, FlagDefs } from '../../../framework/types.ts';
import { configuredLogger } from '../logging.ts';
import { optionFlag, optionTexts } from '../option-flags.ts';
import { onEverySignal } from '../signals.ts';

const own = {
  'proxy-session-token': {
    type: 'string',
    env: 'CODER_PROXY_SESSION_TOKEN',
    description: 'Token of the proxy, as `coder wsproxy create` printed it.',
  },
  'primary-access-url': {
    type: 'string',
    env: 'CODER_PRIMARY_ACCESS_URL',
    description: 'URL of the server.',
  },
  'derp-only': {
    type: 'bool',
    env: 'CODER_PROXY_DERP_ONLY',
    description: 'Whether this proxy is only a relay between clients and workspaces, without apps and terminals.',
  },
} as const satisfies Record<string, FlagDef>;

/** What an option means here, where that is not what it means for a server. */
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  'derp-server-enable': 'Whether this proxy runs a DERP relay between clients and workspaces.',
  'access-url': 'URL where people reach this proxy.',
  'wildcard-access-url': 'Host name pattern of apps at this proxy, such as *.eu.example.com. Default: path apps only.',
};

async function flagsOf(): Promise<FlagDefs> {
  const [{ options }, { SHARED_OPTIONS }] = await Promise.all([
    import('@ropewalk/server/config/options'),
    import('@ropewalk/server/workspace-proxy/options'),
  ]);
  const shared = SHARED_OPTIONS.map((name): [string, FlagDef] => {
    const row = options[name];
    const description = ownValue(DESCRIPTIONS, row.flag);
    return [row.flag, { ...optionFlag(row), ...(description ? { description } : {}) }];
  });
  return { ...own, ...Object.fromEntries(shared) };
}

const help =
  'Serves apps and terminals of workspaces to people in its region. It keeps a connection to the server, and starts ' +
  'also while the server cannot be reached.';

const examples = [
  {
    does: 'Serve a region, with the token and the URL of the server in the environment',
    run: 'coder wsproxy server --access-url https://eu.example.com',
  },
];

export default command({ loadFlags: flagsOf, help, examples }, async (ctx, { flags, texts }) => {
  const [{ loadConfig }, { options }, { SHARED_OPTIONS }, { startWorkspaceProxy }] = await Promise.all([
    import('@ropewalk/server/config/load'),
    import('@ropewalk/server/config/options'),
    import('@ropewalk/server/workspace-proxy/options'),
    import('@ropewalk/server/workspace-proxy/start'),
  ]);
  const env = Object.fromEntries(SHARED_OPTIONS.map((name) => [options[name].env, ctx.env[options[name].env]]));
  const { config } = loadConfig({ flags: optionTexts(options, SHARED_OPTIONS, texts), env });
  const log = configuredLogger(config);
  const given = (flag: 'proxy-session-token' | 'primary-access-url') => texts[flag] ?? ctx.env[own[flag].env] ?? '';
  const proxy = await startWorkspaceProxy({
    options: {
      ...config,
      sessionToken: given('proxy-session-token'),
      primaryAccessUrl: given('primary-access-url'),
      derpOnly: (flags as { 'derp-only'?: boolean })['derp-only'] === true,
    },
    log,
  });
  releaseMemoryWhenIdle();
  const stopped = Promise.withResolvers<void>();
  onEverySignal(['SIGINT', 'SIGTERM', 'SIGHUP'], (signal) => {
    log.info('stopping', { signal });
    stopped.resolve();
  });
  print(ctx.io, `The workspace proxy is ready: ${config.accessUrl}`);
  print(ctx.io, `It listens at ${proxy.url}. Stop with Ctrl+C.`);
  await stopped.promise;
  await proxy.close();
});
