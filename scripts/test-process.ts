// A process of a test run: runs the test files that its parent names, one after another. What they load is loaded once and
// stays compiled, which halves the processor time of files that start a server. The parent is scripts/test-files.ts.

import { once } from 'node:events';
import { run } from 'node:test';
import { spec as Spec } from 'node:test/reporters';

/** What the parent asks for. */
export interface FileOrder {
  /** The absolute path of the test file. */
  file: string;
  /** The folder for its temporary files. */
  temporary: string;
  /** How long the file may take to end after its last test, in ms: its last hooks stop servers. */
  endMs: number;
}

/** What this process says: the tests that begin and end, then the result of the file. */
export type FileEvent = { begins: string } | { ends: string } | { result: ProcessResult };

export interface ProcessResult {
  passed: number;
  /** The names of the tests that failed. */
  failures: string[];
  /** `name: reason` */
  skipped: string[];
  /** The time in tests, in ms. */
  tested: number;
  /** The report of `node:test`. */
  output: string;
  /** What keeps the process running long after the file's tests: `tcp 127.0.0.1:5432`. The process runs no further file. */
  keptBy: string[];
  /** The memory of the process, in bytes. */
  rss: number;
}

const say = (event: FileEvent) => process.send!(event);

/** The handles that keep this process running, with the addresses of sockets. */
function handles(): string[] {
  const { libuv } = process.report.getReport() as { libuv: Handle[] };
  const keeping = libuv.filter(({ is_active, is_referenced }) => is_active && is_referenced);
  return keeping.map(({ type, localEndpoint, remoteEndpoint }) => {
    const place = remoteEndpoint ?? localEndpoint;
    return place ? `${type} ${place.ip4 ?? place.ip6 ?? ''}:${place.port ?? ''}` : type;
  });
}

interface Handle {
  type: string;
  is_active: boolean;
  is_referenced: boolean;
  localEndpoint?: Endpoint | null;
  remoteEndpoint?: Endpoint | null;
}

interface Endpoint {
  ip4?: string;
  ip6?: string;
  port?: number;
}

/** Resolves when all tests have ended and the file takes too long to end. */
function kept(stream: ReturnType<typeof run>, endMs: number, ended: AbortSignal): Promise<void> {
  let [waiting, since] = [0, performance.now()];
  stream.on('test:enqueue', () => waiting++);
  stream.on('test:complete', () => {
    waiting--;
    since = performance.now();
  });
  return new Promise((resolve) => {
    const look = setInterval(() => {
      if (waiting === 0 && performance.now() - since > endMs) resolve();
    }, endMs / 10).unref();
    ended.addEventListener('abort', () => clearInterval(look));
  });
}

async function runFile({ file, temporary, endMs }: FileOrder): Promise<void> {
  const result: ProcessResult = { passed: 0, failures: [], skipped: [], tested: 0, output: '', keptBy: [], rss: 0 };
  const env = { ...process.env };
  const directory = process.cwd();
  process.env['TMPDIR'] = temporary;
  // `node:test` ends a file when it has left nothing open that keeps a process running
  process.channel!.unref();
  const stream = run({ files: [file], isolation: 'none' });
  stream.on('test:pass', ({ name, skip, details, nesting }) => {
    if (nesting === 0) result.tested += details.duration_ms;
    if (details.type === 'suite') return;
    if (skip === undefined) result.passed++;
    else result.skipped.push(typeof skip === 'string' ? `${name}: ${skip}` : name);
  });
  stream.on('test:fail', ({ name, details }) => {
    if (details.type !== 'suite') result.failures.push(name);
  });
  stream.on('test:dequeue', ({ name }) => say({ begins: name }));
  stream.on('test:complete', ({ name }) => say({ ends: name }));
  stream.compose(new Spec()).on('data', (text: string) => {
    result.output += text;
  });
  const ended = new AbortController();
  stream.once('end', () => ended.abort());
  await Promise.race([once(ended.signal, 'abort'), kept(stream, endMs, ended.signal)]);
  if (!ended.signal.aborted) result.keptBy = handles();
  process.channel!.ref();
  // the next file gets the environment and the directory that this one got
  process.chdir(directory);
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
  result.rss = process.memoryUsage.rss();
  say({ result });
}

process.on('message', (order: FileOrder) => void runFile(order));
// the parent has no more files, or is gone
process.on('disconnect', () => process.exit());
