const DAY_S = 86_400;

/** The lifetimes in days to choose from, up to the longest that the server permits (in nanoseconds). */
export function lifetimeChoices(longestNs: number): number[] {
  const longest = Math.floor(longestNs / 1e9 / DAY_S);
  const usual = [1, 7, 30, 90, 365].filter((days) => days <= longest);
  return longest > 0 && longest < 3_650 && !usual.includes(longest) ? [...usual, longest] : usual;
}

/** A lifetime as the API takes it: nanoseconds. */
export const nanoseconds = (days: number): number => days * DAY_S * 1e9;
