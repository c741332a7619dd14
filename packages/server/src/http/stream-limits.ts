/**
 * Limits the WebSockets, event streams and exports that one holder has open at a time. A holder is a person, an agent, or
 * the network of a client without a session. All counts are in this server's memory. Connections of provisioner daemons
 * have limits for each credential (rpc/provisioner/budgets.ts).
 */
import type { RouteDef, RouteKey } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Config } from '../config/options.ts';

/** `form`: each message costs an evaluation. `tunnel`: bytes to and from a workspace. `watch`: all others. */
export type StreamKind = 'form' | 'tunnel' | 'watch';

const KINDS: Partial<Record<RouteKey, StreamKind>> = {
  'GET /templateversions/{templateversion}/dynamic-parameters': 'form',
  'GET /workspaceagents/{workspaceagent}/pty': 'tunnel',
  'GET /tailnet': 'tunnel',
  'GET /workspaceagents/{workspaceagent}/coordinate': 'tunnel',
  'GET /workspaceagents/{workspaceagent}/tunnel': 'tunnel',
  'GET /workspaceagents/{workspaceagent}/proxy-path': 'tunnel',
  'GET /users/{user}/workspace/{workspacename}/tunnel': 'tunnel',
};

export const kindOfStream = (route: RouteKey): StreamKind => KINDS[route] ?? 'watch';

const KIB = 1024;
/**
 * The longest message that a client may send, in bytes. Forms receive all values of a template. Streams that only send
 * ignore what they receive. Tunnels, agents and daemons send bytes, which are not collected into messages.
 */
export const MAX_MESSAGE_BYTES: Readonly<Record<StreamKind, number>> = {
  form: 1024 * KIB,
  tunnel: 64 * KIB,
  watch: 64 * KIB,
};

/** For each agent and for each network. Connections that an agent lost may take minutes to end. */
const MAX_OF_AGENT = 50;
const MAX_OF_NETWORK = 500;

export interface StreamHolder {
  kind: 'person' | 'agent' | 'network';
  /** The person's id, the agent's token, or the network. */
  id: string;
}

export interface StreamLimits {
  /**
   * Counts a stream until the returned function is called.
   * @throws AppError `rate_limited` if the holder has as many streams of the kind as it may have
   */
  hold(kind: StreamKind, holder: StreamHolder): () => void;
}

/** Whether an answer of the route stays open although the client did not ask for a WebSocket. */
export const staysOpen = ({ stream }: RouteDef): boolean => stream === 'sse' || stream === 'lines';

export function createStreamLimits(
  config: Pick<Config, 'maxFormsPerUser' | 'maxStreamsPerUser' | 'maxTunnelsPerUser'>,
): StreamLimits {
  const limits: Record<StreamKind, { max: number; flag: string; what: string; close: string }> = {
    form: {
      max: config.maxFormsPerUser,
      flag: '--max-forms-per-user',
      what: 'workspace forms',
      close: 'Close one of them',
    },
    tunnel: {
      max: config.maxTunnelsPerUser,
      flag: '--max-tunnels-per-user',
      what: 'connections to workspaces',
      close: 'Close a terminal, an SSH session or a forwarded port',
    },
    watch: {
      max: config.maxStreamsPerUser,
      flag: '--max-streams-per-user',
      what: 'event streams and followed logs',
      close: 'Close one of them, such as a page of the dashboard',
    },
  };
  const counts = new Map<string, number>();

  function tooMany(kind: StreamKind, holder: StreamHolder, max: number): AppError {
    const { what, close, flag } = limits[kind];
    if (holder.kind === 'agent') return new AppError('rate_limited', `This agent already has ${max} open ${what}.`);
    const whose = holder.kind === 'person' ? 'You already have' : 'Clients of your network already have';
    return new AppError('rate_limited', `${whose} ${max} open ${what}. ${close} and try again.`, {
      ...(holder.kind === 'person' ? { detail: `An administrator sets the limit with ${flag}.` } : {}),
    });
  }

  return {
    hold(kind, holder) {
      const max = holder.kind === 'person' ? limits[kind].max : holder.kind === 'agent' ? MAX_OF_AGENT : MAX_OF_NETWORK;
      if (max <= 0) return () => {};
      const key = `${kind} ${holder.kind} ${holder.id}`;
      const count = counts.get(key) ?? 0;
      if (count >= max) throw tooMany(kind, holder, max);
      counts.set(key, count + 1);
      let held = true;
      return () => {
        if (!held) return;
        held = false;
        const left = counts.get(key)! - 1;
        if (left > 0) counts.set(key, left);
        else counts.delete(key);
      };
    },
  };
}
