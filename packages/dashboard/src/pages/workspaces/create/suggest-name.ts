const COLORS = [
  'amber',
  'azure',
  'coral',
  'crimson',
  'golden',
  'indigo',
  'ivory',
  'jade',
  'lilac',
  'olive',
  'pearl',
  'rose',
  'ruby',
  'scarlet',
  'silver',
  'teal',
  'violet',
  'cobalt',
] as const;
const ANIMALS = [
  'badger',
  'bison',
  'crane',
  'dolphin',
  'eagle',
  'falcon',
  'fox',
  'gecko',
  'heron',
  'ibis',
  'jaguar',
  'koala',
  'lemur',
  'lynx',
  'marten',
  'otter',
  'owl',
  'panda',
  'puffin',
  'raven',
  'seal',
  'swift',
  'tapir',
  'wren',
] as const;

/** A name that is easy to remember and not in use. `random` is between 0 and 1, as from Math.random. */
export function suggestName(used: ReadonlySet<string>, random: () => number = Math.random): string {
  const pick = (words: readonly string[]) => words[Math.floor(random() * words.length)]!;
  let name = '';
  for (let attempt = 0; attempt < 20; attempt++) {
    name = `${pick(COLORS)}-${pick(ANIMALS)}`;
    if (!used.has(name)) return name;
  }
  let number = 2;
  while (used.has(`${name}-${number}`)) number++;
  return `${name}-${number}`;
}

/** What is wrong with a workspace name, by the rules of the server. */
export function nameProblem(name: string): string | undefined {
  if (name === '') return 'Enter a name.';
  if (name.length > 32) return 'Use at most 32 characters.';
  if (!/^[a-z0-9]+(-[a-z0-9]+)*$/i.test(name)) return 'Use letters, digits and single hyphens between them.';
  if (/^(new|create)$/i.test(name)) return `"${name}" is reserved. Choose another name.`;
  return undefined;
}
