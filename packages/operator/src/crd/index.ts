import { CONTROL_PLANES } from './control-plane.ts';
import type { CustomResource } from './manifest.ts';
import { PROVISIONERS } from './provisioner.ts';
import { WORKSPACE_PROXIES } from './workspace-proxy.ts';

/** Every resource of the operator. */
export const CUSTOM_RESOURCES: readonly CustomResource[] = [CONTROL_PLANES, PROVISIONERS, WORKSPACE_PROXIES];
