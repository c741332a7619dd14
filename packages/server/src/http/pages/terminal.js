// The web terminal's page, in the browser. It finds the agent through the API, then connects to the workspace's terminal.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 2_000;
/** The close codes of an orderly end: the program in the terminal has ended. */
const NORMAL = 1000;
const STARTING = ['pending', 'starting', 'running'];

const notice = document.getElementById('notice');
const [, base, user, place] = /^(.*)\/@([^/]+)\/([^/]+)\/terminal\/?$/.exec(location.pathname);
const [workspaceName, agentName = ''] = decodeURIComponent(place).split('.');
const query = new URLSearchParams(location.search);

/** Shows a line above the terminal, or hides it. An error stays until the next action. */
function say(text = '', { kind = '', link, button } = {}) {
  notice.hidden = text === '';
  notice.dataset.kind = kind;
  notice.textContent = text;
  if (link) {
    const anchor = document.createElement('a');
    anchor.href = link.href;
    anchor.textContent = link.text;
    notice.append(' ', anchor);
  }
  if (button) {
    const element = document.createElement('button');
    element.textContent = button.text;
    element.addEventListener('click', button.press, { once: true });
    notice.append(element);
    element.focus();
  }
}

/** The answer of the API, or an error with its status and message. */
async function api(path) {
  const answer = await fetch(`${base}/api/v2${path}`, { headers: { Accept: 'application/json' } });
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw Object.assign(new Error(body.message ?? `The server answered ${answer.status}.`), { status: answer.status });
}

/** The agent to connect to. An error with `wait` says what the page waits for. */
async function findAgent() {
  const workspace = await api(`/users/${user}/workspace/${encodeURIComponent(workspaceName)}`);
  const { latest_build: build } = workspace;
  const later = (text) => Object.assign(new Error(text), { wait: true });
  if (!STARTING.includes(build.status)) {
    throw later(`The workspace ${workspaceName} is ${build.status}. Start it with: coder start ${workspaceName}`);
  }
  const agents = build.resources.flatMap((resource) => resource.agents ?? []);
  const agent = agentName === '' ? agents[0] : agents.find(({ name }) => name === agentName);
  if (!agent) {
    if (build.status !== 'running') throw later(`The workspace ${workspaceName} is starting…`);
    throw new Error(`The workspace ${workspaceName} has no agent ${agentName}.`);
  }
  if (agent.status !== 'connected') {
    const why = agent.health?.reason ? ` (${agent.health.reason})` : '';
    throw later(`Waiting for the agent ${agent.name} to connect${why}…`);
  }
  document.title = `${workspaceName}.${agent.name} – Terminal`;
  return agent;
}

/** The terminal's id is in the address, so that the page finds it again after a reload. */
function terminalId() {
  let id = query.get('reconnect');
  if (!id) {
    id = crypto.randomUUID?.() ?? randomUuid();
    query.set('reconnect', id);
    history.replaceState(null, '', `?${query}`);
  }
  return id;
}

/** crypto.randomUUID exists only on secure origins. */
function randomUuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const terminal = new Terminal({
  scrollback: 10_000,
  fontFamily: 'ui-monospace, monospace',
  fontSize: 14,
  // below 1.2 some fonts lose their underscores
  lineHeight: 1.2,
  theme: { background: '#141414' },
});
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.open(document.getElementById('terminal'));
fit.fit();
terminal.focus();
new ResizeObserver(() => fit.fit()).observe(document.getElementById('terminal'));

let socket;
const encoder = new TextEncoder();
function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(encoder.encode(JSON.stringify(message)));
}
terminal.onData((data) => send({ data }));
// the oldest form of mouse reports has bytes, not characters
terminal.onBinary((data) => send({ data }));
terminal.onResize(({ cols, rows }) => send({ width: cols, height: rows }));

/** One connection, until it ends. Resolves with whether the program has ended. */
function connect(agent, command) {
  const address = new URL(`${base}/api/v2/workspaceagents/${agent.id}/pty`, location.href);
  address.protocol = address.protocol.replace('http', 'ws');
  address.search = new URLSearchParams({
    reconnect: terminalId(),
    width: terminal.cols,
    height: terminal.rows,
    ...(command ? { command } : {}),
    ...(query.has('no_wait') ? { no_wait: 'true' } : {}),
    ...(query.get('container') ? { container: query.get('container') } : {}),
  });
  return new Promise((resolve) => {
    let opened = false;
    socket = new WebSocket(address);
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('open', () => {
      opened = true;
      say();
      // the server sends the whole scrollback again
      terminal.reset();
      send({ width: terminal.cols, height: terminal.rows });
    });
    socket.addEventListener('message', ({ data }) => terminal.write(new Uint8Array(data)));
    socket.addEventListener('close', ({ code }) => resolve({ ended: opened && code === NORMAL, opened }));
  });
}

/** A command from the address runs only after the person confirms it, because anybody can make a link. */
async function commandToRun(agent) {
  const slug = query.get('app');
  if (slug) {
    const app = agent.apps.find((one) => one.slug === slug);
    if (!app?.command) throw new Error(`The agent ${agent.name} has no app ${slug} that runs a command.`);
    return app.command;
  }
  const command = query.get('command') ?? '';
  if (command === '' || sessionStorage.getItem(`run ${terminalId()}`) === command) return command;
  await new Promise((resolve) => {
    say(`This link runs a command in your workspace:\n${command}`, { button: { text: 'Run it', press: resolve } });
  });
  sessionStorage.setItem(`run ${terminalId()}`, command);
  say();
  terminal.focus();
  return command;
}

function pressed(key) {
  return new Promise((resolve) => {
    const listener = terminal.onKey(({ key: typed }) => {
      if (typed !== key) return;
      listener.dispose();
      resolve();
    });
  });
}

async function run() {
  let wait = FIRST_WAIT_MS;
  let command;
  for (;;) {
    try {
      const agent = await findAgent();
      command ??= await commandToRun(agent);
      const { ended, opened } = await connect(agent, command);
      if (opened) wait = FIRST_WAIT_MS;
      if (ended) {
        say('The program has ended. Press Enter for a new one.');
        await pressed('\r');
        continue;
      }
      say('The connection was lost; trying again…');
    } catch (err) {
      if (err.status === 401) {
        const back = `${location.pathname}${location.search}`;
        const href = `${base}/login?redirect=${encodeURIComponent(back)}`;
        return say('You are signed out.', { kind: 'error', link: { href, text: 'Sign in' } });
      }
      // retrying a rejected request is useless. Retrying an unreachable server is not
      if (!err.wait && err.status !== undefined && err.status < 500) return say(err.message, { kind: 'error' });
      if (!err.wait && err.status === undefined && !(err instanceof TypeError)) {
        return say(err.message, { kind: 'error' });
      }
      say(err instanceof TypeError ? 'The server does not answer; trying again…' : err.message);
    }
    await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random() / 2)));
    wait = Math.min(wait * 1.6, LONGEST_WAIT_MS);
  }
}

void run();
