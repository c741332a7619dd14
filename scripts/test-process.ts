// A process of a test run: runs the test files that its parent names, one after another. What they load is loaded once and
// stays compiled, which halves the processor time of files that start a server. The parent is scripts/test-files.ts.

import { once } from 'node:events';
import { run } from 'node:test';
import { spec as Spec } from 'node:test/reporters';
import { inspect } from 'node:util';

/** What the parent asks for. */
export interface FileOrder {
  /** The absolute path of the test file. */
  file: string;
  /** The folder for its temporary files. */
  temporary: string;
  /** How long the file may take to end after its last test, in ms: its last hooks stop servers. */
  endMs: number;
}

/** What this process says, as it happens: of a file that does not end, the parent knows what came before. */
export type FileEvent =
  | { begins: string }
  | { ends: string }
  | { passed: string }
  | { failed: string }
  /** The time of a passed test or suite that is part of no other, in ms. */
  | { took: number }
  /** `name: reason` */
  | { skipped: string }
  /** A part of the report of `node:test`. */
  | { report: string }
  | { ended: FileEnd };

export interface FileEnd {
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
  const env = { ...process.env };
  const directory = process.cwd();
  process.env['TMPDIR'] = temporary;
  // `node:test` ends a file when it has left nothing open that keeps a process running
  process.channel!.unref();
  const stream = run({ files: [file], isolation: 'none' });
  stream.on('test:pass', ({ name, skip, details, nesting }) => {
    if (nesting === 0) say({ took: details.duration_ms });
    if (details.type === 'suite') return;
    if (skip === undefined) say({ passed: name });
    else say({ skipped: typeof skip === 'string' ? `${name}: ${skip}` : name });
  });
  const failures: string[] = [];
  stream.on('test:fail', ({ name, details }) => {
    if (details.type !== 'suite') say({ failed: name });
    failures.push(`${name}: ${inspect(details.error)}\n`);
  });
  stream.on('test:dequeue', ({ name }) => say({ begins: name }));
  stream.on('test:complete', ({ name }) => say({ ends: name }));
  stream.compose(new Spec()).on('data', (text: string | Buffer) => say({ report: text.toString() }));
  const ended = new AbortController();
  stream.once('end', () => ended.abort());
  await Promise.race([once(ended.signal, 'abort'), kept(stream, endMs, ended.signal)]);
  const keptBy = ended.signal.aborted ? [] : handles();
  // the reporter has the errors at the end of the file only
  if (!ended.signal.aborted) for (const failure of failures) say({ report: failure });
  process.channel!.ref();
  // the next file gets the environment and the directory that this one got
  process.chdir(directory);
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
  say({ ended: { keptBy, rss: process.memoryUsage.rss() } });
}

process.on('message', (order: FileOrder) => void runFile(order));
// the parent has no more files, or is gone
process.on('disconnect', () => process.exit());
