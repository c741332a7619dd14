/** Whether Go's time package can load a zone of this name: exact case, no offsets. `''` is UTC, `Local` the machine's. */
export function isTimeZone(name: string): boolean {
  if (name === '' || name === 'Local') return true;
  return zoneNamed(name) === name;
}

/** The name of the IANA database's zone or link that a text names in any case, such as `Europe/Dublin`, `GMT` or `EST5EDT`. */
export function zoneNamed(text: string): string | undefined {
  try {
    // Unlike Intl, this keeps the name of an alias and only corrects its case.
    return /^[A-Za-z]/.test(text) ? new Temporal.ZonedDateTime(0n, text).timeZoneId : undefined;
  } catch {
    return undefined;
  }
}

/** The name that Temporal and Intl use for a zone that `isTimeZone` accepts. */
export function timeZoneId(name: string): string {
  if (name === 'Local') return Temporal.Now.timeZoneId();
  return name === '' ? 'UTC' : name;
}
