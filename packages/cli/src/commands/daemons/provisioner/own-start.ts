import { closeSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';

// of /proc/<pid>/stat, counted from the field after the name of the program. See proc_pid_stat(5).
const ARG_START = 45;
const ENV_START = 47;

/**
 * Overwrites values of the arguments and variables that this process was started with, where the system keeps them for
 * /proc/<pid>/cmdline and environ. `process.env` reads the same memory: remove these variables from it first. A value is
 * overwritten where it is a whole argument or follows the = of a flag or variable. Returns whether both files are free of
 * the values afterwards; never on systems other than Linux.
 * @param values none of them empty
 */
export function overwriteStart(values: Iterable<string>): boolean {
  if (process.platform !== 'linux') return false;
  const hidden = [...values].map((value) => Buffer.from(value));
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const memory = openSync('/proc/self/mem', 'r+');
    try {
      for (const field of [ARG_START, ENV_START]) {
        const [start, end] = fields.slice(field, field + 2).map(Number) as [number, number];
        const bytes = Buffer.alloc(end - start);
        readSync(memory, bytes, 0, bytes.length, start);
        for (const value of hidden)
          for (const at of placesOf(value, bytes))
            writeSync(memory, Buffer.alloc(value.length), 0, value.length, start + at);
      }
    } finally {
      closeSync(memory);
    }
    const shown = Buffer.concat(['cmdline', 'environ'].map((name) => readFileSync(`/proc/self/${name}`)));
    return hidden.every((value) => !shown.includes(value));
  } catch {
    // the system does not permit it
    return false;
  }
}

function placesOf(value: Buffer, bytes: Buffer): number[] {
  const places: number[] = [];
  const before = [undefined, 0, '='.charCodeAt(0)];
  for (let at = bytes.indexOf(value); at >= 0; at = bytes.indexOf(value, at + 1))
    if (before.includes(bytes[at - 1]) && !bytes[at + value.length]) places.push(at);
  return places;
}
