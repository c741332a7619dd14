import type { ConnectedAgent } from '../../authz/proofs.ts';
import {
  type MetadataValue,
  type Reported,
  type StatsReport,
  type Usage,
  writeMetadata,
  writeStats,
  writeUsage,
} from '../../db/queries/agent-reports.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { Services } from '../context/context.ts';
import { type Batcher, createBatcher } from './batcher.ts';

const STATS_EVERY_MS = 15_000;
/** How often to write the metadata of agents without readers, in ms. */
const METADATA_EVERY_MS = 30_000;
/** How often to write the metadata of agents with readers, in ms. */
const WATCHED_EVERY_MS = 400;
const USAGE_EVERY_MS = 60_000;
/** The maximum number of agents whose reports are kept while the database is unavailable. */
const MAX_AGENTS = 20_000;
/** Upstream's limits for one report, in bytes: one value or error, and all keys. */
const MAX_VALUE = 2_048;
const MAX_KEYS = 6_144;
/** The maximum number of values of one agent. Templates use far fewer. */
const MAX_VALUES = 200;
/** The maximum number of protocols in one statistics report, which is stored for months, and of characters of their names. */
const MAX_PROTOCOLS = 20;
const LONGEST_PROTOCOL = 32;
/** The maximum number of ids in one notification, which PostgreSQL limits to 8,000 bytes. */
const IDS_AT_ONCE = 150;

export interface MetadataReport {
  key: string;
  value: string;
  error: string;
}

type Reporter = ConnectedAgent<Pick<AgentIdentity, 'id' | 'workspace_id'>>;

/** Keeps frequent reports of agents in memory and writes them for all agents together. */
export interface AgentReports {
  stats(agent: Reporter, report: StatsReport): void;
  metadata(agent: Reporter, results: readonly MetadataReport[]): void;
  /** By path of the volume. The empty path is the memory. */
  usage(agent: Reporter, usage: ReadonlyMap<string, Usage>): void;
  /** Whether someone reads this agent's metadata, so that it is written and announced immediately. */
  watched(agentId: string, on: boolean): void;
  /** Writes the reports that are still in memory. */
  close(): Promise<void>;
}

export function createAgentReports(services: Services): AgentReports {
  const { sql, events, clock, log } = services;
  const watched = new Set<string>();
  const later = <T>({ report }: Reported<Map<string, T>>, after: Reported<Map<string, T>>) => {
    for (const [key, value] of after.report) if (report.has(key) || report.size < MAX_VALUES) report.set(key, value);
    return { ...after, report };
  };
  const stats = createBatcher<Reported<StatsReport>>({
    what: 'statistics of agents',
    everyMs: STATS_EVERY_MS,
    most: MAX_AGENTS,
    merge: ({ report: earlier }, { agent, report: after }) => ({
      agent,
      report: {
        ...after,
        rxBytes: earlier.rxBytes + after.rxBytes,
        txBytes: earlier.txBytes + after.txBytes,
        rxPackets: earlier.rxPackets + after.rxPackets,
        txPackets: earlier.txPackets + after.txPackets,
      },
    }),
    write: (items) => writeStats(sql, [...items.values()]),
    log,
  });
  const metadata = (everyMs: number): Batcher<Reported<Map<string, MetadataValue>>> =>
    createBatcher<Reported<Map<string, MetadataValue>>>({
      what: 'metadata of agents',
      everyMs,
      most: MAX_AGENTS,
      merge: later,
      async write(items) {
        await writeMetadata(sql, [...items.values()]);
        const seen = [...items.keys()].filter((id) => watched.has(id));
        for (let at = 0; at < seen.length; at += IDS_AT_ONCE) {
          await events.publish(sql, 'agent_metadata', { agent_ids: seen.slice(at, at + IDS_AT_ONCE) });
        }
      },
      log,
    });
  const slow = metadata(METADATA_EVERY_MS);
  const fast = metadata(WATCHED_EVERY_MS);
  const usage = createBatcher<Reported<Map<string, Usage>>>({
    what: 'resource usage of agents',
    everyMs: USAGE_EVERY_MS,
    most: MAX_AGENTS,
    merge: later,
    write: (items) => writeUsage(sql, [...items.values()]),
    log,
  });
  return {
    stats(agent, report) {
      const { ssh, vscode, jetbrains, reconnectingPty, connections, rxBytes, txBytes } = report;
      // a report without connections or traffic needs no row
      if (ssh + vscode + jetbrains + reconnectingPty + connections + rxBytes + txBytes === 0) return;
      const protocols = Object.entries(report.protocols).slice(0, MAX_PROTOCOLS);
      const cut = Object.fromEntries(protocols.map(([name, n]) => [name.slice(0, LONGEST_PROTOCOL), n]));
      stats.add(agent.id, { agent, report: { ...report, protocols: cut } });
    },
    metadata(agent, results) {
      const values = new Map<string, MetadataValue>();
      const at = clock.now();
      let keys = 0;
      for (const { key, value, error } of results) {
        keys += key.length;
        if (keys > MAX_KEYS) break;
        const whole = value.length <= MAX_VALUE;
        values.set(clean(key), {
          value: clean(value),
          error: whole ? clean(error) : `value of ${value.length} bytes exceeded ${MAX_VALUE} bytes`,
          at,
        });
      }
      if (values.size > 0) (watched.has(agent.id) ? fast : slow).add(agent.id, { agent, report: values });
    },
    usage: (agent, points) => usage.add(agent.id, { agent, report: new Map(points) }),
    watched(agentId, on) {
      if (!on) watched.delete(agentId);
      else if (!watched.has(agentId)) {
        watched.add(agentId);
        void slow.flush();
      }
    },
    async close() {
      await Promise.all([stats, slow, fast, usage].map((batcher) => batcher.close()));
    },
  };
}

/** Removes what the database cannot store, and shortens the text to the limit. */
function clean(text: string): string {
  return text.slice(0, MAX_VALUE).replaceAll('\0', '');
}
