import { readdirSync } from 'node:fs';

/**
 * The ids of all processes. Node's `globSync('/proc/[0-9]*')` sometimes returns nothing while a process ends: it asks for the
 * type of each entry, and one that is gone ends the search.
 */
export function processIds(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}
