import type { CustomResource } from './manifest.ts';
import { PROVISIONERS } from './provisioner.ts';

/** Every resource of the operator. */
export const CUSTOM_RESOURCES: readonly CustomResource[] = [PROVISIONERS];
