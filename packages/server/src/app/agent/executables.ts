/** The executables that a server can offer, by upstream's names of operating system and architecture. */
export const EXECUTABLES = [
  ['linux', 'amd64'],
  ['linux', 'arm64'],
  ['linux', 'armv7'],
  ['darwin', 'amd64'],
  ['darwin', 'arm64'],
  ['windows', 'amd64'],
  ['windows', 'arm64'],
] as const;
