/** The flags of commands that show the address of the bundled database. */
export const bundledFlags = {
  'raw-url': { type: 'bool', description: 'Print only the value.' },
} as const;

/** As upstream's command prints it: the URL, or a psql command with it. */
export const showBundledUrl = (url: string, flags: { 'raw-url': boolean }): string =>
  flags['raw-url'] ? url : `psql "${url}"`;
