import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Connection_Action, Connection_Type, type StatsSchema } from '@platform/wire/proto/agent';
import { Notifier } from './notifier.ts';
import { durationMs, type Routine, uuidBytes } from './wire-types.ts';

/** The most reports that wait without a connection. */
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

/** Counts sessions and bytes, and reports them to the server. */
export interface Activity {
  /**
   * Records the start of a session. Call the result when the session ends. The first session of a tunnel has the id that
   * the server gave its connection, so that the server can add to it who connected.
   */
  begin(kind: SessionKind, connectionId?: string): (statusCode: number, reason: string) => void;
  /** Records the end of a tunnel in which no session began, such as one that only forwards ports. */
  tunnelEnded(kind: 'ssh' | 'port', connectionId: string, reason: string): void;
  /** Adds bytes received from clients and bytes sent to them. */
  count(received: number, sent: number): void;
  reportConnections: Routine;
  reportStats: Routine;
}

export function createActivity(): Activity {
  const sessions: Record<SessionKind, number> = { ssh: 0, vscode: 0, jetbrains: 0, reconnecting_pty: 0 };
  const total = { received: 0, sent: 0 };
  const reported = { received: 0, sent: 0 };
  const reports: Report[] = [];
  /** The connections of open tunnels in which a session began. */
  const begun = new Set<string>();
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
  return {
    begin(kind, connectionId) {
      const id = connectionId ?? randomUUID();
      if (connectionId && kind !== 'reconnecting_pty') begun.add(connectionId);
      sessions[kind]++;
      report(id, Connection_Action.CONNECT, kind, 0, '');
      let ended = false;
      return (statusCode, reason) => {
        if (ended) return;
        ended = true;
        sessions[kind]--;
        report(id, Connection_Action.DISCONNECT, kind, statusCode, reason);
      };
    },
    tunnelEnded(kind, connectionId, reason) {
      if (!begun.delete(connectionId)) report(connectionId, Connection_Action.DISCONNECT, kind, 0, reason);
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
      // The server keeps a report in memory and answers at once, so the call takes about one round trip.
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
        };
        ({ reportInterval } = await report(stats));
        Object.assign(reported, now);
      }
    },
  };
}
