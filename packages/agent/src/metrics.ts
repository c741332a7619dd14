import type { MessageInitShape } from '@bufbuild/protobuf';
import { Stats_Metric_Type, type Stats_MetricSchema } from '@ropewalk/wire/proto/agent';

/** What the agent measures about itself and sends with its statistics. Names, types and labels are upstream's. */
export interface AgentMetrics {
  scriptEnded(success: boolean): void;
  /** All start scripts have ended, after this time. */
  started(success: boolean, ms: number): void;
  list(): MessageInitShape<typeof Stats_MetricSchema>[];
}

export function createAgentMetrics(): AgentMetrics {
  const scripts = new Map<boolean, number>();
  let startUp: { success: boolean; ms: number } | undefined;
  const labels = (success: boolean) => [{ name: 'success', value: String(success) }];
  return {
    scriptEnded: (success) => void scripts.set(success, (scripts.get(success) ?? 0) + 1),
    started(success, ms) {
      startUp = { success, ms };
    },
    list() {
      const ended = [...scripts].map(([success, value]) => ({
        name: 'agent_scripts_executed_total',
        type: Stats_Metric_Type.COUNTER,
        value,
        labels: labels(success),
      }));
      if (!startUp) return ended;
      const seconds = {
        name: 'coderd_agentstats_startup_script_seconds',
        type: Stats_Metric_Type.GAUGE,
        value: startUp.ms / 1_000,
        labels: labels(startUp.success),
      };
      return [...ended, seconds];
    },
  };
}
