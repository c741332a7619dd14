/** How long insights can look back, in days: a little more than their longest period. */
export const USAGE_DAYS = 410;
