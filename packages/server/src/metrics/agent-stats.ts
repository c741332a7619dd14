import { AppError } from '@ropewalk/kit';
import { Gauge, type Registry } from 'prom-client';
import { readAgentStats, STATS_LABELS, type StatsLabel } from '../db/queries/workspace-figures.ts';
import type { DatabaseGauges } from './gauges.ts';

const MAX_SERIES = 10_000;

/** @throws AppError `invalid` for an unknown label */
export function statsLabels(names: readonly string[]): StatsLabel[] {
  const unknown = names.find((name) => !(STATS_LABELS as readonly string[]).includes(name));
  if (unknown === undefined) return names as StatsLabel[];
  throw new AppError(
    'invalid',
    `Invalid --prometheus-aggregate-agent-stats-by label "${unknown}": use ${STATS_LABELS.join(', ')}.`,
  );
}

/**
 * Gauges with the statistics that agents send about their connections, summed by these labels. Bytes count from the start of this
 * server.
 */
export function createAgentStats(registry: Registry, by: readonly StatsLabel[]): DatabaseGauges {
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `coderd_agentstats_${name}`, help, labelNames: by, registers: [registry] });
  const rx = gauge('rx_bytes', 'The bytes that agents have received since this server started.');
  const tx = gauge('tx_bytes', 'The bytes that agents have sent since this server started.');
  const connections = gauge('connection_count', 'The number of connections to agents.');
  const latency = gauge(
    'connection_median_latency_seconds',
    'The median latency of connections to agents, in seconds.',
  );
  const ssh = gauge('session_count_ssh', 'The number of SSH sessions.');
  const vscode = gauge('session_count_vscode', 'The number of VS Code sessions.');
  const jetbrains = gauge('session_count_jetbrains', 'The number of JetBrains sessions.');
  const terminals = gauge('session_count_reconnecting_pty', 'The number of web terminals.');
  const current = [connections, latency, ssh, vscode, jetbrains, terminals];
  const forget = () => {
    for (const one of current) one.reset();
  };
  /** The last report whose bytes are counted. */
  let counted: number | null = null;
  return {
    forget,
    async read(sql) {
      const rows = await readAgentStats(sql, { by, after: counted, most: MAX_SERIES });
      forget();
      counted = Math.max(counted ?? 0, ...rows.map(({ last }) => last));
      for (const row of rows) {
        const labels = Object.fromEntries(by.map((name) => [name, row[name]])) as Record<StatsLabel, string>;
        rx.inc(labels, row.rx_bytes);
        tx.inc(labels, row.tx_bytes);
        connections.set(labels, row.connections);
        if (row.latency !== null) latency.set(labels, row.latency / 1_000);
        ssh.set(labels, row.ssh);
        vscode.set(labels, row.vscode);
        jetbrains.set(labels, row.jetbrains);
        terminals.set(labels, row.reconnecting_pty);
      }
    },
  };
}
