import { authorize } from '../../authz/authorize.ts';
import type { Ctx } from '../context/context.ts';

/** `profile` shows where CPU time was spent, and `heap` where memory in use was allocated. */
export type ProfileKind = 'profile' | 'heap';

/** Records profiles of this process. */
export interface ProfileRecorder {
  record(kind: ProfileKind, options: { seconds?: number | undefined; signal: AbortSignal }): Promise<Buffer>;
}

/**
 * Records a profile of the server that answers, for people who may read its health. It ends with the request. `seconds`: 0
 * stands for the usual duration, as elsewhere in the API.
 */
export async function recordProfile(
  ctx: Ctx,
  recorder: ProfileRecorder,
  kind: ProfileKind,
  seconds?: number,
): Promise<Buffer> {
  authorize(ctx, 'read', { type: 'debug_info' });
  return recorder.record(kind, { seconds: seconds || undefined, signal: ctx.signal });
}
