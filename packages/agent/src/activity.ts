import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Connection_Action, Connection_Type, type StatsSchema } from '@ropewalk/wire/proto/agent';
import type { AgentMetrics } from './metrics.ts';
import { Notifier } from './notifier.ts';
import { durationMs, type Routine, uuidBytes } from './wire-types.ts';

/** The maximum number of reports that wait without a connection. */
const MAX_REPORTS = 2_048;
const DEFAULT_INTERVAL_MS = 5 * 60_000;

export type SessionKind = 'ssh' | 'vscode' | 'jetbrains' | 'reconnecting_pty';

const TYPES: Record<SessionKind | 'port', Connection_Type> = {
  ssh: Connection_Type.SSH,
  vscode: Connection_Type.VSCODE,
  jetbrains: Connection_Type.JETBRAINS,
  reconnecting_pty: Connection_Type.RECONNECTING_PTY,
  // the protocol has no type for forwarded ports
  port: Connection_Type.TYPE_UNSPECIFIED,
};

interface Report {
  id: string;
  action: Connection_Action;
  type: Connection_Type;
  timestamp: Date;
  statusCode: number;
  reason: string;
}

/** A tunnel that several sessions may share. */
interface SharedTunnel {
  /** Of its first session. */
  kind: SessionKind;
  /** The number of open sessions. */
  sessions: number;
  closed: boolean;
  /** Of the session that ended last. */
  statusCode: number;
  reason: string;
}

/** Counts sessions and bytes, and reports them to the server. */
export interface Activity {
  /**
   * Counts a session until the result is called. `connectionId` is the server's id of the connection, with which the server
   * knows who connected. A session without one is recorded as a separate connection, as is a terminal.
   */
  begin(kind: SessionKind, connectionId?: string): (statusCode: number, reason: string) => void;
  /**
   * Records the end of a tunnel's connection, with the exit code of its last session: immediately, or when its sessions have
   * ended too. A tunnel may have many sessions, as those of editors have, or none, if it only forwards ports.
   */
  tunnelEnded(kind: 'ssh' | 'port', connectionId: string, reason: string): void;
  /** Adds bytes received from clients and bytes sent to them. */
  count(received: number, sent: number): void;
  reportConnections: Routine;
  reportStats: Routine;
}

export function createActivity(metrics: AgentMetrics): Activity {
  const sessions: Record<SessionKind, number> = { ssh: 0, vscode: 0, jetbrains: 0, reconnecting_pty: 0 };
  const total = { received: 0, sent: 0 };
  const reported = { received: 0, sent: 0 };
  const reports: Report[] = [];
  /** The connections in whose tunnels sessions began. */
  const tunnels = new Map<string, SharedTunnel>();
  const added = new Notifier();
  const report = (
    id: string,
    action: Connection_Action,
    kind: SessionKind | 'port',
    statusCode: number,
    reason: string,
  ) => {
    if (reports.length >= MAX_REPORTS) reports.shift();
    reports.push({ id, action, type: TYPES[kind], timestamp: new Date(), statusCode, reason });
    added.notify();
  };

  function alone(kind: SessionKind, id: string = randomUUID()) {
    report(id, Connection_Action.CONNECT, kind, 0, '');
    return (statusCode: number, reason: string) => report(id, Connection_Action.DISCONNECT, kind, statusCode, reason);
  }

  function join(kind: SessionKind, id: string) {
    const tunnel = tunnels.get(id) ?? { kind, sessions: 0, closed: false, statusCode: 0, reason: '' };
    if (!tunnels.has(id)) report(id, Connection_Action.CONNECT, kind, 0, '');
    tunnels.set(id, tunnel);
    tunnel.sessions++;
    return (statusCode: number, reason: string) => {
      tunnel.sessions--;
      Object.assign(tunnel, { statusCode, reason });
      finishTunnel(id, tunnel);
    };
  }

  function finishTunnel(id: string, { kind, sessions: open, closed, statusCode, reason }: SharedTunnel): void {
    if (!closed || open > 0) return;
    tunnels.delete(id);
    report(id, Connection_Action.DISCONNECT, kind, statusCode, reason);
  }

  return {
    begin(kind, connectionId) {
      sessions[kind]++;
      const finish = connectionId && kind !== 'reconnecting_pty' ? join(kind, connectionId) : alone(kind, connectionId);
      let ended = false;
      return (statusCode, reason) => {
        if (ended) return;
        ended = true;
        sessions[kind]--;
        finish(statusCode, reason);
      };
    },
    tunnelEnded(kind, id, reason) {
      const tunnel = tunnels.get(id);
      if (!tunnel) return report(id, Connection_Action.DISCONNECT, kind, 0, reason);
      tunnel.closed = true;
      finishTunnel(id, tunnel);
    },
    count(received, sent) {
      total.received += received;
      total.sent += sent;
    },
    async reportConnections(client, signal) {
      for (;;) {
        for (let first = reports[0]; first; first = reports[0]) {
          const { id, timestamp, ...rest } = first;
          const connection = { ...rest, id: uuidBytes(id), ip: '127.0.0.1', timestamp: timestampFromDate(timestamp) };
          await client.reportConnection({ connection }, { signal });
          // A newer report may have pushed it out during the call.
          if (reports[0] === first) reports.shift();
        }
        await added.wait(signal);
      }
    },
    async reportStats(client, signal) {
      const timer = new Notifier();
      // The server keeps a report in memory and answers immediately, so the call takes about one round trip.
      let latency = -1;
      const report = async (stats?: MessageInitShape<typeof StatsSchema>) => {
        const from = performance.now();
        const answer = await client.updateStats(stats ? { stats } : {}, { signal });
        latency = performance.now() - from;
        return answer;
      };
      let { reportInterval } = await report();
      for (;;) {
        await timer.wait(signal, durationMs(reportInterval) || DEFAULT_INTERVAL_MS);
        const now = { ...total };
        const count = Object.values(sessions).reduce((sum, n) => sum + n, 0);
        const byProto: Record<string, bigint> = count > 0 ? { TCP: BigInt(count) } : {};
        const stats = {
          connectionCount: BigInt(count),
          connectionsByProto: byProto,
          connectionMedianLatencyMs: latency,
          rxBytes: BigInt(now.received - reported.received),
          txBytes: BigInt(now.sent - reported.sent),
          sessionCountSsh: BigInt(sessions.ssh),
          sessionCountVscode: BigInt(sessions.vscode),
          sessionCountJetbrains: BigInt(sessions.jetbrains),
          sessionCountReconnectingPty: BigInt(sessions.reconnecting_pty),
          metrics: metrics.list(),
        };
        ({ reportInterval } = await report(stats));
        Object.assign(reported, now);
      }
    },
  };
}
