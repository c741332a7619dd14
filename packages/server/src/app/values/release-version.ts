/** The numbers of `v1.2.3`. Undefined for another text. */
export function numbersOf(version: string): number[] | undefined {
  const found = /^v?(\d+)\.(\d+)\.(\d+)/.exec(version);
  return found?.slice(1).map(Number);
}

/** Whether the first version is newer. */
export function isNewer(version: string, than: string): boolean {
  const [a, b] = [numbersOf(version), numbersOf(than)];
  if (!a || !b) return false;
  const at = a.findIndex((number, index) => number !== b[index]);
  return at >= 0 && a[at]! > b[at]!;
}
