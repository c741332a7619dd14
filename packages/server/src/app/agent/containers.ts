import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkspaceAgentContainer, WorkspaceAgentListContainersResponse } from '@ropewalk/contract';
import { AppError, type ErrorCode } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { agentPermission } from '../find/agent.ts';
import { workspaceObject } from '../find/workspace.ts';
import type { Source } from '../follow/follow.ts';
import { inTurn } from '../lists/turns.ts';
import { isUuid } from '../values/ids.ts';
import { NEVER } from '../values/time.ts';

type Devcontainer = WorkspaceAgentListContainersResponse['devcontainers'][number];
type Values = Record<string, unknown>;

/** The longest line of an agent's answer, in UTF-16 units. */
const LONGEST_LINE = 1024 * 1024;
/** The pause after a line of an agent that is followed. Meanwhile its stream is not read. */
const PAUSE_MS = 100;
/**
 * The rest after a line, in times of the work that it made. The agents of one owner share it, because lines are parsed
 * where all requests are served.
 */
const REST = 9;
const MAX_ITEMS = 200;
const LONGEST_TEXT = 4_096;
const TIMEOUT_MS = 40_000;
const STATUSES: readonly Devcontainer['status'][] = ['running', 'stopped', 'starting', 'error'];
/** The errors with which an agent may reject a change. */
const CODES: readonly ErrorCode[] = ['invalid', 'not_found', 'conflict', 'unavailable'];

/** Opens a tunnel to a service of the agent. */
export type OpenService = (request: { service: string; [field: string]: unknown }) => Promise<Readable>;

/**
 * Lists the containers of a workspace as its agent reports them. With `label`, only containers with each `key=value`.
 * @throws AppError `invalid` for a label without `=`, `unavailable` if the agent does not answer
 */
export async function listContainers(
  open: OpenService,
  { label = [] }: { label?: readonly string[] },
): Promise<WorkspaceAgentListContainersResponse> {
  const wanted = label.map(parseLabel);
  const list = checkedList(await firstLine(await open({ service: 'containers' })));
  const has = ({ labels }: WorkspaceAgentContainer) =>
    wanted.every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value);
  return { ...list, containers: list.containers.filter(has) };
}

function parseLabel(text: string): [key: string, value: string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new AppError('invalid', `Invalid label "${text}": use key=value.`, {
    validations: [{ field: 'label', detail: 'must be key=value' }],
  });
}

/** Follows the containers of a workspace: the list now, and again after each change, until the agent disconnects. */
export async function containersSource(agent: AgentIdentity, open: OpenService): Promise<Source> {
  const stream = await open({ service: 'containers', watch: true });
  let newest: string | undefined;
  let ended = false;
  let wakeUp = () => {};
  void (async () => {
    try {
      for await (const line of lines(stream)) {
        await inTurn(`containers of ${agent.owner_id}`, async () => {
          const from = performance.now();
          try {
            newest = JSON.stringify(checkedList(JSON.parse(line)));
          } finally {
            wakeUp();
            await delay(REST * (performance.now() - from), undefined, { ref: false });
          }
        });
        await delay(PAUSE_MS, undefined, { ref: false });
      }
    } catch {
      // the agent is gone, or what it sends is not a list
    }
    ended = true;
    stream.destroy();
    wakeUp();
  })();
  return {
    permission: agentPermission('read', agent),
    subscribe(wake) {
      wakeUp = wake;
      return () => stream.destroy();
    },
    async next() {
      const messages = newest === undefined ? [] : [newest];
      newest = undefined;
      return { messages, more: false, end: ended };
    },
  };
}

/**
 * Recreates or removes a dev container. It builds and runs what the workspace's files say, so it requires the
 * permission to run commands in the workspace.
 * @throws AppError the agent's rejection
 */
export async function changeDevcontainer(
  ctx: Ctx,
  agent: AgentIdentity,
  open: OpenService,
  change: { action: 'recreate' | 'remove'; id: string },
): Promise<void> {
  authorize(ctx, 'ssh', workspaceObject(agent));
  const { code, message } = values(await firstLine(await open({ service: 'devcontainer', ...change })));
  if (code === undefined) return;
  const known = CODES.find((each) => each === code) ?? 'unavailable';
  throw new AppError(known, text(message) || 'The agent rejected the change of the dev container.');
}

/** Yields the lines of an agent's answer. Throws if one is too long. */
async function* lines(stream: Readable): AsyncGenerator<string> {
  let rest = '';
  for await (const part of stream.setEncoding('utf8') as AsyncIterable<string>) {
    rest += part;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
      yield rest.slice(0, end);
      rest = rest.slice(end + 1);
    }
    if (rest.length > LONGEST_LINE) throw new Error('the line is too long');
  }
}

async function firstLine(stream: Readable): Promise<unknown> {
  const timer = setTimeout(() => stream.destroy(new Error('no answer')), TIMEOUT_MS);
  try {
    for await (const line of lines(stream)) return JSON.parse(line);
    throw new Error('the answer is empty');
  } catch (cause) {
    throw new AppError('unavailable', 'The agent of this workspace did not report its containers.', { cause });
  } finally {
    clearTimeout(timer);
    stream.destroy();
  }
}

// An agent's answer comes from a workspace, so that its content is untrusted.

const values = (given: unknown): Values =>
  typeof given === 'object' && given !== null && !Array.isArray(given) ? (given as Values) : {};
const list = (given: unknown): Values[] => (Array.isArray(given) ? given.slice(0, MAX_ITEMS).map(values) : []);
const text = (given: unknown): string => (typeof given === 'string' ? given.slice(0, LONGEST_TEXT) : '');
const whole = (given: unknown): number => (Number.isInteger(given) ? (given as number) : 0);
const texts = (given: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values(given))
      .slice(0, MAX_ITEMS)
      .map(([key, value]) => [key.slice(0, LONGEST_TEXT), text(value)]),
  );

function checkedList(given: unknown): WorkspaceAgentListContainersResponse {
  const { containers, devcontainers, warnings } = values(given);
  const said = (Array.isArray(warnings) ? warnings : []).slice(0, MAX_ITEMS).map(text);
  return {
    containers: list(containers).map(checkedContainer),
    devcontainers: list(devcontainers).flatMap(checkedDevcontainer),
    ...(said.length > 0 ? { warnings: said } : {}),
  };
}

function checkedContainer(from: Values): WorkspaceAgentContainer {
  const created = new Date(text(from['created_at']));
  return {
    id: text(from['id']),
    name: text(from['name']),
    created_at: Number.isNaN(created.getTime()) ? NEVER : created.toISOString(),
    image: text(from['image']),
    labels: texts(from['labels']),
    running: from['running'] === true,
    status: text(from['status']),
    volumes: texts(from['volumes']),
    ports: list(from['ports']).map((port) => ({
      port: whole(port['port']),
      network: text(port['network']),
      host_ip: text(port['host_ip']),
      host_port: whole(port['host_port']),
    })),
  };
}

function checkedDevcontainer(from: Values): Devcontainer[] {
  const { id, agent, container } = from;
  if (!isUuid(text(id))) return [];
  const sub = values(agent);
  return [
    {
      id: text(id),
      name: text(from['name']),
      workspace_folder: text(from['workspace_folder']),
      config_path: text(from['config_path']),
      subagent_id: isUuid(text(from['subagent_id'])) ? text(from['subagent_id']) : null,
      status: STATUSES.find((each) => each === from['status']) ?? 'error',
      dirty: from['dirty'] === true,
      ...(container ? { container: checkedContainer(values(container)) } : {}),
      ...(isUuid(text(sub['id']))
        ? { agent: { id: text(sub['id']), name: text(sub['name']), directory: text(sub['directory']) } }
        : {}),
      ...(from['error'] ? { error: text(from['error']) } : {}),
    },
  ];
}
