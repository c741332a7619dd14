/** Whether a zone of this name can be loaded as on the daemons of the published platform: exact case, no offsets. */
export function isTimeZone(name: string): boolean {
  if (name === '' || name === 'Local') return true;
  try {
    // Unlike Intl, this keeps the name of an alias and corrects only its case.
    return /^[A-Z]/.test(name) && new Temporal.ZonedDateTime(0n, name).timeZoneId === name;
  } catch {
    return false;
  }
}
