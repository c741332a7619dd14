import type { Timing } from '@ropewalk/wire/proto/provisioner';
import type { JobContext } from './context.ts';
import type { LogShipper } from './log-shipper.ts';
import type { JobTerraform } from './terraform.ts';

/** The parts that every stage of a job uses. */
export interface Stages {
  ctx: JobContext;
  shipper: LogShipper;
  terraform: JobTerraform;
}

/** A failed build whose state the server must keep. */
export class BuildFailure extends Error {
  readonly state: Uint8Array;
  readonly timings: Timing[];
  constructor(message: string, state: Uint8Array, timings: Timing[]) {
    super(message);
    this.name = 'BuildFailure';
    this.state = state;
    this.timings = timings;
  }
}
