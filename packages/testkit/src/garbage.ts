import { garbageCollector } from '@ropewalk/kit/garbage-collector';

/** Collects the garbage of this process now. */
export const collectGarbage = (): void => garbageCollector()();
