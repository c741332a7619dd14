import { text } from 'node:stream/consumers';
import { createLogger } from '@ropewalk/kit';
import { reportCrash } from '@ropewalk/kit/crash-report';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import type { BuiltinDaemonsInput } from '@ropewalk/server';
import { command } from '../../../framework/definition.ts';
import { outliveOutputs } from '../outputs.ts';
import { programCommand } from '../self.ts';
import { onEverySignal } from '../signals.ts';

/** The process of the server's built-in daemons. BuiltinDaemonsInput describes its standard input. */
export default command({}, async (ctx) => {
  outliveOutputs();
  // also what ends the process as a rejection that nobody handles
  process.on('uncaughtExceptionMonitor', reportCrash);
  const input = JSON.parse(await text(ctx.io.stdin)) as BuiltinDaemonsInput;
  try {
    await runDaemons(ctx.env, input);
  } catch (err) {
    reportCrash(err);
    throw err;
  }
});

async function runDaemons(env: NodeJS.ProcessEnv, input: BuiltinDaemonsInput): Promise<void> {
  const { becomeDaemon, parseNamedEngine, runBuiltinDaemons } = await import('@ropewalk/provisioner');
  if (input.isolation) becomeDaemon(input.isolation.uids);
  const daemons = await runBuiltinDaemons({
    serverUrl: input.serverUrl,
    socketPath: input.socketPath,
    organization: 'default',
    count: input.count,
    namePrefix: input.namePrefix,
    tags: {},
    auth: { installationSecret: input.installationSecret },
    cacheDir: input.cacheDir,
    launcherPath: input.isolation?.launcherPath,
    socketsDir: input.isolation?.socketsDir,
    terraformBinaries: input.terraformBinaries,
    namedEngines: input.terraformDownloads.map(parseNamedEngine),
    attachProvider: input.terraformProvider !== 'registry',
    terraformBaseUrl: input.terraformBaseUrl || undefined,
    runnerCommand: programCommand('runner'),
    provisionerVersion: input.version,
    secretValues: [...input.secretValues, input.installationSecret],
    env,
    log: createLogger({ level: input.verbose ? 'debug' : 'info' }, { part: 'provisioner' }),
  });
  // the server sends these. They are the steps of stopping an external daemon, with a signal for each step
  onEverySignal(['SIGTERM'], () => void daemons.stop());
  onEverySignal(['SIGINT'], () => void daemons.stop('cancelActive'));
  onEverySignal(['SIGQUIT'], () => void daemons.stop('kill'));
  releaseMemoryWhenIdle();
  await daemons.done;
}
