// What a person does. Each activity resolves when it is established, and then goes on until the process ends.
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import ssh2 from 'ssh2';
import { ask, type Call, openEvents } from './requests.ts';

export type Activity =
  /** Reads lists and pages, one request every `everyMs`. */
  | { kind: 'lists'; token: string; everyMs: number }
  /** The requests of the dashboard's page of one workspace, its two streams, and what changes make it read again. */
  | { kind: 'dashboard'; token: string; owner: string; workspace: string; agentId: string }
  /** Follows one workspace. */
  | { kind: 'watch'; token: string; workspaceId: string }
  /** Has a form of dynamic parameters open and types. */
  | { kind: 'form'; token: string; versionId: string; everyMs: number }
  /** Has a terminal open in the browser and types. */
  | { kind: 'terminal'; token: string; agentId: string; everyMs: number }
  /** Has an SSH session open and runs a command in it. */
  | { kind: 'ssh'; token: string; agentId: string; everyMs: number }
  /** Has a forwarded port open and sends a byte through it. */
  | { kind: 'forward'; token: string; agentId: string; port: number; everyMs: number }
  | { kind: 'sign-in'; email: string; password: string; everyMs: number };

/** Where an activity reports. */
export interface Reports {
  took(name: string, ms: number): void;
  failed(name: string, reason: unknown): void;
  counted(name: string): void;
}

type Of<K extends Activity['kind']> = Extract<Activity, { kind: K }>;
type Start<K extends Activity['kind']> = (url: string, activity: Of<K>, reports: Reports) => Promise<void>;

const ANSWER_MS = 60_000;

/** Runs `once` again and again, first after a random part of the interval. The next waits for the one before. */
function every(ms: number, once: () => Promise<unknown>, failed: (reason: unknown) => void): void {
  const turn = () => {
    const began = performance.now();
    once()
      .catch(failed)
      .finally(() => setTimeout(turn, Math.max(0, ms - (performance.now() - began))));
  };
  setTimeout(turn, Math.random() * ms);
}

async function timedAsk(url: string, call: Call, reports: Reports, name = 'api'): Promise<string> {
  const began = performance.now();
  const { text } = await ask(url, call);
  reports.took(name, performance.now() - began);
  return text;
}

const LISTS = [
  '/users/me',
  '/workspaces?q=owner%3Ame&limit=25',
  '/templates',
  '/workspaces?limit=25',
  '/organizations',
];

const lists: Start<'lists'> = async (url, { token, everyMs }, reports) => {
  let turn = Math.floor(Math.random() * LISTS.length);
  const once = () => {
    turn += 1;
    return timedAsk(url, { path: LISTS[turn % LISTS.length]!, token }, reports);
  };
  every(everyMs, once, (err) => reports.failed('api', err));
};

/** As in the dashboard's `api/events.ts`. */
const GATHER_MS = 50;
const AGAIN_MS = 500;

/** What the list of workspaces and one workspace's page read, with the kinds of changes that make them read again. */
function pageQueries({ owner, workspace }: Of<'dashboard'>): { path: string; watches: string[] }[] {
  return [
    { path: '/users/me', watches: ['user'] },
    { path: '/appearance', watches: ['deployment'] },
    { path: '/buildinfo', watches: [] },
    { path: '/organizations', watches: ['organization', 'user'] },
    { path: '/notifications/inbox', watches: ['notification'] },
    { path: '/regions', watches: [] },
    { path: '/templates', watches: ['template'] },
    { path: '/workspaces?q=owner%3Ame&limit=100&offset=0', watches: ['workspace', 'template', 'job'] },
    { path: `/users/${owner}/workspace/${workspace}?include_deleted=true`, watches: ['workspace', 'job'] },
  ];
}

const dashboard: Start<'dashboard'> = async (url, activity, reports) => {
  const { token, agentId } = activity;
  const queries = pageQueries(activity);
  const failed = (err: unknown) => reports.failed('dashboard', err);
  const read = (path: string) => timedAsk(url, { path, token }, reports, 'dashboard').catch(failed);
  const readAt = new Map<string, number>();
  const waiting = new Set<string>();
  const again = (path: string) => {
    if (waiting.has(path)) return;
    waiting.add(path);
    const wait = Math.max(GATHER_MS, (readAt.get(path) ?? 0) + AGAIN_MS - performance.now());
    setTimeout(() => {
      waiting.delete(path);
      readAt.set(path, performance.now());
      void read(path);
    }, wait);
  };
  const changes = await openEvents(url, { path: '/events', token }, (name, data) => {
    reports.counted(`events: ${name}`);
    if (name !== 'change') return;
    const { kind } = JSON.parse(data) as { kind: string };
    for (const { path, watches } of queries) if (watches.includes(kind)) again(path);
  });
  await Promise.all(queries.map(({ path }) => read(path)));
  const metadata = await openEvents(url, { path: `/workspaceagents/${agentId}/watch-metadata`, token }, () =>
    reports.counted('metadata'),
  );
  for (const { ended } of [changes, metadata]) void ended.then(() => failed('a stream ended'));
};

const watch: Start<'watch'> = async (url, { token, workspaceId }, reports) => {
  const began = performance.now();
  const stream = await openEvents(url, { path: `/workspaces/${workspaceId}/watch`, token }, () =>
    reports.counted('watch'),
  );
  reports.took('connect', performance.now() - began);
  void stream.ended.then(() => reports.failed('watch', 'the stream ended'));
};

async function dial(url: string, path: string, token: string, reports: Reports) {
  const began = performance.now();
  const { connection } = await dialWebSocket(`${url}/api/v2${path}`, {
    headers: { 'Coder-Session-Token': token },
    timeoutMs: ANSWER_MS,
  });
  reports.took('connect', performance.now() - began);
  return connection;
}

/** Sends, and waits for the next piece that `matches`. */
function answered(listen: (got: (piece: string) => void) => () => void, matches: (piece: string) => boolean) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let off = () => {};
  const timer = setTimeout(() => reject(new Error('no answer within 60 s')), ANSWER_MS);
  off = listen((piece) => {
    if (matches(piece)) resolve();
  });
  return promise.finally(() => {
    clearTimeout(timer);
    off();
  });
}

const form: Start<'form'> = async (url, { token, versionId, everyMs }, reports) => {
  const path = `/templateversions/${versionId}/dynamic-parameters`;
  const connection = await dial(url, path, token, reports);
  const listen = (got: (text: string) => void) => {
    connection.on('text', got);
    return () => connection.off('text', got);
  };
  connection.on('text', () => {});
  await answered(listen, () => true);
  let id = 0;
  const type = async () => {
    id += 1;
    const began = performance.now();
    const answer = answered(listen, (text) => (JSON.parse(text) as { id: number }).id === id);
    connection.sendText(JSON.stringify({ id, inputs: { size: id % 2 ? 'small' : 'large', name: `typed-${id}` } }));
    await answer;
    reports.took('form', performance.now() - began);
  };
  every(everyMs, type, (err) => reports.failed('form', err));
  void connection.closed.then(({ code }) => reports.failed('form', `the form ended with ${code}`));
};

const terminal: Start<'terminal'> = async (url, { token, agentId, everyMs }, reports) => {
  const query = new URLSearchParams({ reconnect: crypto.randomUUID(), width: '80', height: '24', command: 'cat' });
  const connection = await dial(url, `/workspaceagents/${agentId}/pty?${query}`, token, reports);
  let seen = '';
  const listen = (got: (text: string) => void) => {
    const take = (bytes: Buffer) => {
      seen = (seen + bytes.toString('latin1')).slice(-200);
      got(seen);
    };
    connection.on('binary', take);
    return () => connection.off('binary', take);
  };
  connection.on('binary', () => {});
  let n = 0;
  const type = async () => {
    n += 1;
    const began = performance.now();
    const answer = answered(listen, (text) => text.includes(`typed-${n}.`));
    connection.sendBinary(Buffer.from(JSON.stringify({ data: `typed-${n}.\r` })));
    await answer;
    reports.took('terminal', performance.now() - began);
  };
  every(everyMs, type, (err) => reports.failed('terminal', err));
  void connection.closed.then(({ code }) => reports.failed('terminal', `the terminal ended with ${code}`));
};

const ssh: Start<'ssh'> = async (url, { token, agentId, everyMs }, reports) => {
  const connection = await dial(url, `/workspaceagents/${agentId}/tunnel?service=ssh`, token, reports);
  const client = new ssh2.Client();
  const began = performance.now();
  await new Promise<void>((resolve, reject) => {
    client.once('ready', resolve);
    client.once('error', reject);
    client.connect({ sock: byteStream(connection), username: 'coder', keepaliveInterval: 0 });
  });
  reports.took('ssh ready', performance.now() - began);
  const run = () =>
    new Promise<void>((resolve, reject) => {
      const started = performance.now();
      client.exec('true', (err, channel) => {
        if (err) return reject(err);
        channel.resume();
        channel.once('close', () => {
          reports.took('ssh', performance.now() - started);
          resolve();
        });
      });
    });
  every(everyMs, run, (err) => reports.failed('ssh', err));
  client.on('error', (err) => reports.failed('ssh', err));
  client.once('close', () => reports.failed('ssh', 'the session ended'));
};

const forward: Start<'forward'> = async (url, { token, agentId, port, everyMs }, reports) => {
  const path = `/workspaceagents/${agentId}/tunnel?service=tcp&port=${port}`;
  const stream = byteStream(await dial(url, path, token, reports));
  const once = async () => {
    const began = performance.now();
    const answer = answered(
      (got) => {
        const take = (data: Buffer) => got(data.toString());
        stream.on('data', take);
        return () => stream.off('data', take);
      },
      () => true,
    );
    stream.write('x');
    await answer;
    reports.took('forward', performance.now() - began);
  };
  every(everyMs, once, (err) => reports.failed('forward', err));
  stream.on('error', (err) => reports.failed('forward', err));
  stream.once('close', () => reports.failed('forward', 'the connection ended'));
};

const signIn: Start<'sign-in'> = async (url, { email, password, everyMs }, reports) => {
  const once = async () => {
    const began = performance.now();
    await ask(url, { method: 'POST', path: '/users/login', body: { email, password } });
    reports.took('sign-in', performance.now() - began);
  };
  every(everyMs, once, (err) => reports.failed('sign-in', err));
};

const STARTS: { [K in Activity['kind']]: Start<K> } = {
  lists,
  dashboard,
  watch,
  form,
  terminal,
  ssh,
  forward,
  'sign-in': signIn,
};

export function begin(url: string, activity: Activity, reports: Reports): Promise<void> {
  return (STARTS[activity.kind] as Start<Activity['kind']>)(url, activity as never, reports);
}
