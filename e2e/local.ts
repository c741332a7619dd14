import { starterOf } from '@ropewalk/rules/starters';

/** The example template whose agent runs on the daemon's machine. */
export const localExample = (): Record<string, string> => starterOf('local')!.files;
