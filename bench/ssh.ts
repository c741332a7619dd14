import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureExecutable, startCoderServer } from '../e2e/harness.ts';
import { paired, type Row, timed } from './measure.ts';
import { readyWorkspace } from './ready-workspace.ts';
import { connectDirect, freshDirectExec, startDirectServer } from './ssh-direct.ts';

const MEGABYTES = 1_000;

/** An executable that does nothing, built like ours. */
function emptyExecutable(dir: string): string {
  writeFileSync(join(dir, 'empty.mjs'), '');
  const output = join(dir, 'empty');
  const config = join(dir, 'empty.json');
  writeFileSync(
    config,
    JSON.stringify({
      main: join(dir, 'empty.mjs'),
      mainFormat: 'module',
      output,
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
    }),
  );
  const made = spawnSync(process.execPath, ['--build-sea', config], { stdio: 'ignore' });
  if (made.status !== 0) throw new Error('the empty executable could not be made');
  return output;
}

async function run(file: string, args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let bytes = 0;
  child.stdout.on('data', (data: Buffer) => {
    bytes += data.length;
  });
  const [code] = (await once(child, 'close')) as [number];
  if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
  const wanted = args.includes(`${MEGABYTES}M`) ? MEGABYTES * 1024 * 1024 : 0;
  if (bytes !== wanted) throw new Error(`${bytes} bytes came, not ${wanted}`);
}

/** The built command's ssh, compared with ssh2 talking to itself over loopback with the same cipher. */
export async function benchSsh(): Promise<Row[]> {
  const executable = await ensureExecutable();
  const dir = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const empty = emptyExecutable(dir);
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false' } });
  const direct = await startDirectServer();
  try {
    await readyWorkspace(server);
    const env = { ...server.env, CODER_URL: server.url, CODER_SESSION_TOKEN: server.token };
    const shortOnce = () => timed(() => run(executable, ['ssh', 'dev', '--', 'true'], env));
    const shortFloor = async () => {
      const start = await timed(() => run(empty, [], server.env));
      return start + (await freshDirectExec(direct.port));
    };
    const short = await paired(25, shortOnce, shortFloor, { warmUp: 10 });
    const command = ['ssh', 'dev', '--', 'head', '-c', `${MEGABYTES}M`, '/dev/zero'];
    const longOnce = () => timed(() => run(executable, command, env));
    const longFloor = () =>
      timed(async () => (await connectDirect(direct.port)).exec(`bulk ${MEGABYTES * 1024 * 1024}`));
    const long = await paired(7, longOnce, longFloor, { warmUp: 3 });
    const rate = (ms: number) => `${(MEGABYTES / (ms / 1000)).toFixed(0)} MiB/s`;
    return [
      {
        what: '`coder ssh dev -- true`, built executable',
        ours: `${short.ours.toFixed(0)} ms`,
        floor: `${short.floor.toFixed(0)} ms`,
        figure: `${short.ratio.toFixed(2)}×`,
        reach: '≤ 2×',
        met: short.ratio <= 2,
      },
      {
        what: `\`coder ssh dev -- head -c ${MEGABYTES}M /dev/zero\``,
        ours: rate(long.ours),
        floor: rate(long.floor),
        figure: `${(1 / long.ratio).toFixed(2)}×`,
        reach: '≥ 0.5×',
        met: 1 / long.ratio >= 0.5,
      },
    ];
  } finally {
    direct.close();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}
