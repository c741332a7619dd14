/** The value of a record under a name from outside. Names such as "constructor", which every object has, have none. */
export function ownValue<T>(record: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
