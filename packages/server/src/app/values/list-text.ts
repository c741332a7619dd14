const LIST = new Intl.ListFormat('en', { type: 'conjunction' });

/** These words as a list in a sentence: `a, b, and c`. */
export const listText = (words: readonly string[]): string => LIST.format(words);
