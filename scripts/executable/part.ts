/** The parts of the executable: the commands and the agent, and the whole program. */
export const PARTS = ['command', 'whole'] as const;

/** The first words of commands that only the whole program has. */
const WHOLE = ['server', 'reset-password', 'provisioner', 'provisioners', 'provisionerd', 'operator'];

/** The processes that daemons start for builds. Many of them start, and they need little. */
export const FOR_BUILDS = ['launcher', 'runner'];

/**
 * The part that runs a command line. A word of WHOLE may also be the name of a workspace or a flag's value: then the whole
 * program runs, which has every command and only starts more slowly.
 */
export function partFor([...words]: readonly string[]): (typeof PARTS)[number] {
  if (words[0] === 'provisioner' && FOR_BUILDS.includes(words[1]!)) return 'command';
  const end = words.indexOf('--');
  return words.slice(0, end < 0 ? undefined : end).some((word) => WHOLE.includes(word)) ? 'whole' : 'command';
}
