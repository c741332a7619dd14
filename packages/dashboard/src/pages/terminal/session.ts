/**
 * One terminal: finds the agent, connects, and connects again after every interruption with the same `reconnect` id, so
 * that the same program continues. The server then sends the whole scrollback again.
 */
import type { Region, WorkspaceAgent } from '@ropewalk/contract';
import { call } from '../../api/client.ts';
import { errorText, isUnreachable, statusOf } from '../../api/errors.ts';
import { regionName, terminalAddress } from '../../regions/choice.ts';
import { terminalRegion } from '../../regions/store.ts';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { agentsOf } from '../workspaces/status.ts';
import type { TerminalTab } from './tabs.ts';

/** What the page says above a terminal. */
export interface SessionNotice {
  text: string;
  kind: 'info' | 'error';
  /** A command to show, exactly as it would run. */
  command?: string;
  link?: { to: string; text: string; leaves?: boolean };
  action?: { text: string; run: () => void };
}

export interface SessionOptions {
  owner: string;
  workspace: string;
  /** Empty for the first agent. */
  agent: string;
  tab: TerminalTab;
  /** Whether to skip waiting for startup scripts. */
  noWait: boolean;
  container: string;
  /** The user in the container. Empty: the container's own. */
  containerUser: string;
  terminal: {
    size(): { cols: number; rows: number };
    write(data: Uint8Array): void;
    reset(): void;
    focus(): void;
    /** Resolves when the person presses Enter. */
    enter(): Promise<void>;
  };
  /** Undefined while everything works. */
  onNotice: (notice: SessionNotice | undefined) => void;
  onAgent: (agent: WorkspaceAgent) => void;
}

export interface Session {
  send(data: string): void;
  resize(cols: number, rows: number): void;
  end(): void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 2_000;
const WATCH_MS = 5_000;
/** A timer that is this late means that the computer slept, and that the connection is probably gone. */
const SLEPT_MS = 20_000;
/** The close code of an orderly end: the program in the terminal has ended. */
const NORMAL = 1000;
const CONNECTABLE = new Set(['pending', 'starting', 'running']);

const NOT_OPENED = { opened: false, over: false };

/** An error that ends by itself: the page waits. */
class NotYet extends Error {
  readonly link: SessionNotice['link'];
  constructor(message: string, link?: SessionNotice['link']) {
    super(message);
    this.link = link;
  }
}

/** An error that trying again does not mend. */
class Hopeless extends Error {}

/** The address of the program in the terminal, at the servers or at a proxy. */
function programAddress(
  options: SessionOptions,
  { region, agentId, command }: { region: Region | undefined; agentId: string; command: string },
): URL {
  const { tab, noWait, container, containerUser, terminal } = options;
  const { cols, rows } = terminal.size();
  const address = terminalAddress(region, agentId, location.href);
  address.search = new URLSearchParams({
    reconnect: tab.id,
    width: String(cols),
    height: String(rows),
    ...(command ? { command } : {}),
    ...(noWait ? { no_wait: 'true' } : {}),
    ...(container ? { container } : {}),
    ...(containerUser ? { container_user: containerUser } : {}),
  }).toString();
  return address;
}

/** What to show after a failed attempt, and whether another attempt makes sense. */
function failureOf(err: unknown): { notice: SessionNotice; isFinal: boolean } {
  if (statusOf(err) === 401) {
    const link = { to: paths.login(location.pathname + location.search), text: 'Sign in', leaves: true };
    return { notice: { kind: 'error', text: 'You are signed out.', link }, isFinal: true };
  }
  if (err instanceof Hopeless) return { notice: { kind: 'error', text: err.message }, isFinal: true };
  const { title, detail } = errorText(err);
  if ((statusOf(err) ?? 500) < 500) return { notice: { kind: 'error', text: detail || title }, isFinal: true };
  if (err instanceof NotYet) {
    const link = err.link ? { link: err.link } : {};
    return { notice: { kind: 'info', text: err.message, ...link }, isFinal: false };
  }
  const text = isUnreachable(err) ? 'The server does not answer. Trying again…' : title;
  return { notice: { kind: 'info', text }, isFinal: false };
}

/**
 * Calls `onAwake` when the page is online or visible again, and `onSlept` after a sleep of the computer. Returns a function
 * that stops it.
 */
function watchComputer(onAwake: () => void, onSlept: () => void): () => void {
  const wake = () => {
    if (document.visibilityState === 'visible') onAwake();
  };
  let last = Date.now();
  const watch = setInterval(() => {
    const now = Date.now();
    if (now - last > WATCH_MS + SLEPT_MS) onSlept();
    last = now;
  }, WATCH_MS);
  addEventListener('online', wake);
  document.addEventListener('visibilitychange', wake);
  return () => {
    clearInterval(watch);
    removeEventListener('online', wake);
    document.removeEventListener('visibilitychange', wake);
  };
}

export function startSession(options: SessionOptions): Session {
  const { terminal, onNotice } = options;
  const encoder = new TextEncoder();
  let socket: WebSocket | undefined;
  let ended = false;
  let command: string | undefined;
  /** Whether the region of the person could not be used, so that this terminal stays at the servers. */
  let isAtServers = false;
  /** Ends the wait before the next attempt. */
  let hurry = () => {};

  const send = (message: { data: string } | { width: number; height: number }) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(encoder.encode(JSON.stringify(message)));
  };

  const connect = (address: URL): Promise<{ opened: boolean; over: boolean }> =>
    new Promise((resolve) => {
      let opened = false;
      const current = new WebSocket(address);
      socket = current;
      current.binaryType = 'arraybuffer';
      current.onopen = () => {
        opened = true;
        onNotice(undefined);
        // the scrollback comes again
        terminal.reset();
        const size = terminal.size();
        send({ width: size.cols, height: size.rows });
      };
      current.onmessage = ({ data }) => terminal.write(new Uint8Array(data as ArrayBuffer));
      current.onclose = ({ code }) => {
        if (socket === current) socket = undefined;
        resolve({ opened, over: opened && code === NORMAL });
      };
    });

  /** One connection, from the search for the agent to its end. Undefined if the session ends before the connection. */
  const attempt = async () => {
    const agent = await findAgent(options);
    if (ended) return;
    options.onAgent(agent);
    command ??= await commandToRun(options, agent);
    if (ended) return;
    const region = isAtServers ? undefined : await terminalRegion();
    const address = programAddress(options, { region, agentId: agent.id, command });
    if (!region) return connect(address);
    const isSigned = await sign(address, agent.id);
    if (ended) return;
    // browsers throw for an address without TLS, if the page has TLS
    const connection = isSigned ? await connect(address).catch(() => NOT_OPENED) : NOT_OPENED;
    // the same program continues at the servers
    if (!connection.opened) isAtServers = true;
    if (isAtServers && !ended) announceDetour(region);
    return connection;
  };

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const run = async () => {
    let wait = FIRST_WAIT_MS;
    while (!ended) {
      try {
        const connection = await attempt();
        if (ended) return;
        if (connection?.opened) wait = FIRST_WAIT_MS;
        if (connection?.over) {
          onNotice({ kind: 'info', text: 'The program has ended. Press Enter for a new one.' });
          await terminal.enter();
          continue;
        }
        onNotice({ kind: 'info', text: 'The connection was lost. Trying again…' });
      } catch (err) {
        if (ended) return;
        const { notice, isFinal } = failureOf(err);
        onNotice(notice);
        if (isFinal) return;
      }
      await pause(wait * (0.5 + Math.random() / 2));
      wait = Math.min(wait * 1.6, LONGEST_WAIT_MS);
    }
  };

  const stopWatching = watchComputer(
    () => hurry(),
    // the browser can take minutes to notice that the connection is gone
    () => socket?.close(),
  );
  void run();

  return {
    send: (data) => send({ data }),
    resize: (width, height) => send({ width, height }),
    end() {
      ended = true;
      stopWatching();
      hurry();
      socket?.close();
    },
  };
}

/** Upstream's name of the parameter. A proxy has no session of this page, so a token for this terminal is in the address. */
const SIGNED_TOKEN = 'coder_signed_app_token_23db1dde';

/** Adds a token for the terminal to its address at a proxy. False: the server issues none. */
async function sign(address: URL, agentId: string): Promise<boolean> {
  try {
    const body = { url: address.href, agentID: agentId };
    const { signed_token: token } = await call('POST /applications/reconnecting-pty-signed-token', { body });
    address.searchParams.set(SIGNED_TOKEN, token);
    return true;
  } catch (err) {
    const status = statusOf(err);
    if (status === undefined || status === 401 || status >= 500) throw err;
    return false;
  }
}

function announceDetour(region: Region): void {
  toast({
    tone: 'warn',
    title: `The region ${regionName(region)} does not open this terminal`,
    detail: 'It opens at the server instead.',
  });
}

/** The agent to connect to. @throws NotYet for a state that passes by itself or that the person can end */
async function findAgent({ owner, workspace: name, agent: wanted }: SessionOptions): Promise<WorkspaceAgent> {
  const workspace = await call('GET /users/{user}/workspace/{workspacename}', {
    params: { user: owner, workspacename: name },
  });
  const { latest_build: build } = workspace;
  const link = { to: paths.workspace(workspace), text: 'Open the workspace' };
  if (!CONNECTABLE.has(build.status))
    throw new NotYet(`The workspace is ${build.status}. The terminal opens once somebody starts it.`, link);
  const agents = agentsOf(build);
  const agent = wanted === '' ? agents[0] : agents.find((one) => one.name === wanted);
  if (!agent) {
    if (build.status !== 'running') throw new NotYet('The workspace is starting…', link);
    throw new Hopeless(wanted ? `The workspace has no agent ${wanted}.` : 'The workspace has no agent.');
  }
  if (agent.status !== 'connected') {
    const why = agent.health.reason ? ` (${agent.health.reason})` : '';
    throw new NotYet(`Waiting for the agent ${agent.name} to connect${why}…`, link);
  }
  return agent;
}

/** A command from the address runs only after the person's consent, because anybody can make a link. */
async function commandToRun({ tab, terminal, onNotice }: SessionOptions, agent: WorkspaceAgent): Promise<string> {
  if (tab.app) {
    const app = agent.apps.find(({ slug }) => slug === tab.app);
    if (!app?.command) throw new Hopeless(`The agent ${agent.name} has no app ${tab.app} that runs a command.`);
    return app.command;
  }
  const consent = `run ${tab.id}`;
  if (tab.command === '' || sessionStorage.getItem(consent) === tab.command) return tab.command;
  await new Promise<void>((resolve) =>
    onNotice({
      kind: 'info',
      text: 'This link runs a command in your workspace. Run it only if you trust where the link came from.',
      command: tab.command,
      action: { text: 'Run it', run: resolve },
    }),
  );
  sessionStorage.setItem(consent, tab.command);
  onNotice(undefined);
  terminal.focus();
  return tab.command;
}
