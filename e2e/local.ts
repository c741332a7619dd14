import { starterOf } from '@platform/kit/starters';

/** The example template whose agent runs on the daemon's machine. */
export const localExample = (): Record<string, string> => starterOf('local')!.files;
