/** The API's names of days, from Sunday. */
const WORDS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'] as const;

/** Monday first, as calendars show them. 0 is Sunday. */
export const WEEK: readonly number[] = [1, 2, 3, 4, 5, 6, 0];

/** The numbers of days that the API names. 0 is Sunday. */
export const dayNumbers = (days: readonly string[]): number[] =>
  WEEK.filter((day) => days.includes(WORDS[day]!)).sort();

/** The API's names of days. */
export const dayWords = (days: readonly number[]): (typeof WORDS)[number][] =>
  WEEK.filter((day) => days.includes(day)).map((day) => WORDS[day]!);
