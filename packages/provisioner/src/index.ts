export * from './daemon/builtin.ts';
export {
  createShared,
  type DaemonOptions,
  type ProvisionerDaemon,
  runProvisionerDaemon,
  type Shared,
} from './daemon/daemon.ts';
export type { DaemonAuth } from './daemon/link.ts';
export { findTerraform, type TerraformBinary } from './terraform/binary.ts';
