export * from './daemon/builtin.ts';
export { type DaemonGroup, type GroupOptions, runDaemonGroup, type StopStep } from './daemon/group.ts';
export type { DaemonAuth } from './daemon/link.ts';
export type { DaemonMetrics, JobKind } from './daemon/metrics.ts';
export { findTerraform } from './terraform/binary.ts';
export { type NamedEngine, parseNamedEngine } from './terraform/named-engine.ts';
export type { TerraformBinary } from './terraform/version.ts';
