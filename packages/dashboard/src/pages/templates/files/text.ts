/** The text of a file, or undefined if it is not a text. */
export function textOf(data: Uint8Array): string | undefined {
  if (data.subarray(0, 8_000).includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(data);
  } catch {
    return undefined;
  }
}
