/**
 * The weight that an Accept-Encoding header gives an encoding, from 0 to 1 (RFC 9110, section 12.5.3). 0 rejects it. Undefined if the
 * header does not name it. An invalid weight counts as 0.
 */
function weightIn(header: string, encoding: string): number | undefined {
  for (const part of header.toLowerCase().split(',')) {
    const [name, ...parameters] = part.split(';');
    if (name!.trim() !== encoding) continue;
    const given = parameters.map((text) => /^\s*q\s*=\s*(.*?)\s*$/.exec(text)?.[1]).find((text) => text !== undefined);
    if (given === undefined) return 1;
    return /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(given) ? Number(given) : 0;
  }
  return undefined;
}

/** Whether an Accept-Encoding header names this encoding, and not with the weight 0. */
export const acceptsEncoding = (header: string, encoding: string): boolean => (weightIn(header, encoding) ?? 0) > 0;

/**
 * The encoding that an Accept-Encoding header prefers. Of several with the same weight, the first one of `offered`. Undefined if it
 * accepts none of them. `*` stands for those that the header does not name.
 */
export function preferredEncoding<E extends string>(header: string, offered: readonly E[]): E | undefined {
  const others = weightIn(header, '*') ?? 0;
  let [best, most]: [E | undefined, number] = [undefined, 0];
  for (const encoding of offered) {
    const weight = weightIn(header, encoding) ?? others;
    if (weight > most) [best, most] = [encoding, weight];
  }
  return best;
}
