import { randomUUID } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Connection_Action, Connection_Type, type StatsSchema } from '@ropewalk/wire/proto/agent';
import { uuidBytes } from '@ropewalk/wire/uuid';
import type { AgentMetrics } from './metrics.ts';
import { Notifier } from './notifier.ts';
import { durationMs, type Routine } from './wire-types.ts';

/** The maximum number of reports that wait without a connection. */
const MAX_REPORTS = 2_048;
const DEFAULT_INTERVAL_MS = 5 * 60_000;
/** The address in reports of tunnels: the server knows their clients. */
const LOOPBACK = '127.0.0.1';

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
  ip: string;
  type: Connection_Type;
  timestamp: Date;
  statusCode: number;
  reason: string;
}

/** A tunnel, or a connection in the tailnet, that several sessions may share. */
interface SharedTunnel {
  /** Of its first session. */
  kind: SessionKind | 'port';
  /** The address of its client. */
  ip: string;
  since: Date;
  /** Whether the server knows that it began. */
  isReported: boolean;
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
   * Records that a connection began that the server does not know, from a client with this address. Returns its id for
   * `begin` and `tunnelEnded`. An SSH connection is reported with its first session, which defines its type.
   */
  beginConnection(kind: 'ssh' | 'port', ip: string): string;
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

/** Records the end of a session. */
type Finish = (statusCode: number, reason: string) => void;

export function createActivity(metrics: AgentMetrics): Activity {
  return new ReportedActivity(metrics);
}

class ReportedActivity implements Activity {
  readonly #metrics: AgentMetrics;
  readonly #sessions: Record<SessionKind, number> = { ssh: 0, vscode: 0, jetbrains: 0, reconnecting_pty: 0 };
  readonly #total = { received: 0, sent: 0 };
  readonly #reported = { received: 0, sent: 0 };
  readonly #reports: Report[] = [];
  /** The connections in whose tunnels sessions began. */
  readonly #tunnels = new Map<string, SharedTunnel>();
  readonly #added = new Notifier();

  constructor(metrics: AgentMetrics) {
    this.#metrics = metrics;
  }

  begin(kind: SessionKind, connectionId?: string): Finish {
    this.#sessions[kind]++;
    const isShared = connectionId && kind !== 'reconnecting_pty';
    const finish = isShared ? this.#join(kind, connectionId) : this.#beginAlone(kind, connectionId);
    let ended = false;
    return (statusCode, reason) => {
      if (ended) return;
      ended = true;
      this.#sessions[kind]--;
      finish(statusCode, reason);
    };
  }

  beginConnection(kind: 'ssh' | 'port', ip: string): string {
    const id = randomUUID();
    const tunnel = newTunnel(kind, ip);
    this.#tunnels.set(id, tunnel);
    if (kind === 'port') this.#announce(id, tunnel);
    return id;
  }

  tunnelEnded(kind: 'ssh' | 'port', id: string, reason: string): void {
    const tunnel = this.#tunnels.get(id);
    if (!tunnel) {
      this.#report(id, { action: Connection_Action.DISCONNECT, kind, reason });
      return;
    }
    tunnel.closed = true;
    if (kind === 'port') tunnel.reason = reason;
    this.#finishTunnel(id, tunnel);
  }

  /** An arrow function, because terminals call it without its object. */
  readonly count = (received: number, sent: number): void => {
    this.#total.received += received;
    this.#total.sent += sent;
  };

  readonly reportConnections: Routine = async (client, signal) => {
    const reports = this.#reports;
    for (;;) {
      for (let first = reports[0]; first; first = reports[0]) {
        const { id, timestamp, ...rest } = first;
        const connection = { ...rest, id: uuidBytes(id), timestamp: timestampFromDate(timestamp) };
        await client.reportConnection({ connection }, { signal });
        // A newer report may have pushed it out during the call.
        if (reports[0] === first) reports.shift();
      }
      await this.#added.wait(signal);
    }
  };

  readonly reportStats: Routine = async (client, signal) => {
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
      const now = { ...this.#total };
      ({ reportInterval } = await report(this.#stats(now, latency)));
      Object.assign(this.#reported, now);
    }
  };

  /** The open sessions, and the bytes up to `now` that the server has not received yet. */
  #stats(now: { received: number; sent: number }, latency: number): MessageInitShape<typeof StatsSchema> {
    const sessions = this.#sessions;
    const count = Object.values(sessions).reduce((sum, n) => sum + n, 0);
    return {
      connectionCount: BigInt(count),
      connectionsByProto: count > 0 ? { TCP: BigInt(count) } : {},
      connectionMedianLatencyMs: latency,
      rxBytes: BigInt(now.received - this.#reported.received),
      txBytes: BigInt(now.sent - this.#reported.sent),
      sessionCountSsh: BigInt(sessions.ssh),
      sessionCountVscode: BigInt(sessions.vscode),
      sessionCountJetbrains: BigInt(sessions.jetbrains),
      sessionCountReconnectingPty: BigInt(sessions.reconnecting_pty),
      metrics: this.#metrics.list(),
    };
  }

  /** Records a session as a separate connection. */
  #beginAlone(kind: SessionKind, id: string = randomUUID()): Finish {
    this.#report(id, { action: Connection_Action.CONNECT, kind });
    return (statusCode, reason) => this.#report(id, { action: Connection_Action.DISCONNECT, kind, statusCode, reason });
  }

  /** Counts a session of a tunnel's connection, which the first session records. */
  #join(kind: SessionKind, id: string): Finish {
    const tunnel = this.#tunnels.get(id) ?? newTunnel(kind, LOOPBACK);
    this.#tunnels.set(id, tunnel);
    if (!tunnel.isReported) tunnel.kind = kind;
    this.#announce(id, tunnel);
    tunnel.sessions++;
    return (statusCode, reason) => {
      tunnel.sessions--;
      Object.assign(tunnel, { statusCode, reason });
      this.#finishTunnel(id, tunnel);
    };
  }

  /** Records the end of a tunnel's connection, if the tunnel and all its sessions have ended. */
  #finishTunnel(id: string, tunnel: SharedTunnel): void {
    const { kind, ip, statusCode, reason } = tunnel;
    if (!tunnel.closed || tunnel.sessions > 0) return;
    this.#tunnels.delete(id);
    this.#announce(id, tunnel);
    this.#report(id, { action: Connection_Action.DISCONNECT, kind, ip, statusCode, reason });
  }

  #announce(id: string, tunnel: SharedTunnel): void {
    const { kind, ip, since } = tunnel;
    if (tunnel.isReported) return;
    tunnel.isReported = true;
    this.#report(id, { action: Connection_Action.CONNECT, kind, ip, timestamp: since });
  }

  #report(
    id: string,
    { kind, ...more }: { kind: SessionKind | 'port' } & Pick<Report, 'action'> & Partial<Omit<Report, 'id' | 'type'>>,
  ): void {
    if (this.#reports.length >= MAX_REPORTS) this.#reports.shift();
    const base = { ip: LOOPBACK, timestamp: new Date(), statusCode: 0, reason: '' };
    this.#reports.push({ ...base, ...more, id, type: TYPES[kind] });
    this.#added.notify();
  }
}

const newTunnel = (kind: SharedTunnel['kind'], ip: string): SharedTunnel => ({
  ...{ kind, ip, since: new Date(), isReported: false },
  ...{ sessions: 0, closed: false, statusCode: 0, reason: '' },
});
