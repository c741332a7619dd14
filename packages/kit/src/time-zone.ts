/** Whether Go's time package can load a zone of this name: exact case, no offsets. `''` is UTC, `Local` the machine's. */
export function isTimeZone(name: string): boolean {
  if (name === '' || name === 'Local') return true;
  try {
    // Unlike Intl, this keeps the name of an alias and only corrects its case.
    return /^[A-Z]/.test(name) && new Temporal.ZonedDateTime(0n, name).timeZoneId === name;
  } catch {
    return false;
  }
}

/** The name that Temporal and Intl use for a zone that `isTimeZone` accepts. */
export function timeZoneId(name: string): string {
  if (name === 'Local') return Temporal.Now.timeZoneId();
  return name === '' ? 'UTC' : name;
}
