import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { AppError, createLogger } from '@ropewalk/kit';
import { reportCrash } from '@ropewalk/kit/crash-report';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import type { BuiltinDaemonsInput, BuiltinDaemonsUpdate } from '@ropewalk/server';
import { command } from '../../../framework/definition.ts';
import { outliveOutputs } from '../outputs.ts';
import { programCommand } from '../self.ts';
import { onEverySignal } from '../signals.ts';

/**
 * The process of the server's built-in daemons. The first line of its standard input is a BuiltinDaemonsInput, each later
 * one a BuiltinDaemonsUpdate.
 */
export default command({}, async (ctx) => {
  outliveOutputs();
  // also what ends the process as a rejection that nobody handles
  process.on('uncaughtExceptionMonitor', reportCrash);
  const given = readInput(ctx.io.stdin);
  try {
    await runDaemons(ctx.env, await given.input, given);
  } catch (err) {
    reportCrash(err);
    throw err;
  } finally {
    given.close();
  }
});

interface ServerInput {
  input: Promise<BuiltinDaemonsInput>;
  /** The newest ones. */
  successors(): BuiltinDaemonsUpdate['successors'] | undefined;
  /** Whether the server's end is open. The server may have been killed before this process could read who its parent is. */
  isOpen(): boolean;
  close(): void;
}

function readInput(stdin: Readable): ServerInput {
  const first = Promise.withResolvers<BuiltinDaemonsInput>();
  let update: BuiltinDaemonsUpdate | undefined;
  let isOpen = true;
  const lines = createInterface({ input: stdin });
  lines.once('line', (line) => {
    first.resolve(JSON.parse(line) as BuiltinDaemonsInput);
    lines.on('line', (next) => {
      update = JSON.parse(next) as BuiltinDaemonsUpdate;
    });
  });
  lines.once('close', () => {
    isOpen = false;
    first.reject(new AppError('invalid', 'The standard input ended before the options.'));
  });
  return {
    input: first.promise,
    successors: () => update?.successors,
    isOpen: () => isOpen,
    close: () => lines.close(),
  };
}

async function runDaemons(
  env: NodeJS.ProcessEnv,
  input: BuiltinDaemonsInput,
  { successors, isOpen }: Pick<ServerInput, 'successors' | 'isOpen'>,
): Promise<void> {
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
    successors,
    parentAlive: isOpen,
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
