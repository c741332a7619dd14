// Version constraints as Terraform writes them: `>= 1.5, < 2.0, != 1.6.1`.

import { parseVersion, type Version } from './version.ts';

/** A version as one number, in the order of versions. Undefined for a number that no release reaches. */
export function versionNumber([major, minor, patch]: Version): number | undefined {
  return major < 1e5 && minor < 1e5 && patch < 1e5 ? major * 1e10 + minor * 1e5 + patch : undefined;
}

/** The numbers from the first up to, but without, the second. */
export type VersionRange = [from: number, below: number];

const LEAST = 0;
const MOST = 1e15;
const ALL: VersionRange[] = [[LEAST, MOST]];

/** The versions that one constraint allows. Undefined for any other text. */
function rangesOf(text: string): VersionRange[] | undefined {
  const match = /^(=|!=|>=|<=|>|<|~>)?\s*(\S+)$/.exec(text.trim());
  const parsed = match && parseVersion(match[2]!);
  const bound = parsed ? versionNumber(parsed.version) : undefined;
  if (!match || !parsed || bound === undefined) return undefined;
  const [major, minor] = parsed.version;
  // the last written part may increase
  const next: Version = parsed.parts === 3 ? [major, minor + 1, 0] : [major + 1, 0, 0];
  const operators: Record<string, VersionRange[]> = {
    '=': [[bound, bound + 1]],
    '!=': [
      [LEAST, bound],
      [bound + 1, MOST],
    ],
    '>=': [[bound, MOST]],
    '<=': [[LEAST, bound + 1]],
    '>': [[bound + 1, MOST]],
    '<': [[LEAST, bound]],
    '~>': [[bound, versionNumber(next) ?? MOST]],
  };
  return operators[match[1] ?? '=']!;
}

/** The ranges that both lists have. */
export function commonRanges(a: readonly VersionRange[], b: readonly VersionRange[]): VersionRange[] {
  return a.flatMap(([from, below]) =>
    b
      .map(([otherFrom, otherBelow]): VersionRange => [Math.max(from, otherFrom), Math.min(below, otherBelow)])
      .filter(([least, most]) => least < most),
  );
}

/** The versions that all constraints allow. Ignores an unreadable one. */
export function allowedVersions(constraints: readonly string[]): VersionRange[] {
  return constraints
    .flatMap((text) => text.split(','))
    .map((text) => rangesOf(text) ?? ALL)
    .reduce<VersionRange[]>(commonRanges, ALL);
}

/** Whether a version is in one of the ranges. True if the text cannot be read as a version. */
export function isAllowed(version: string, ranges: readonly VersionRange[]): boolean {
  const parsed = parseVersion(version);
  const number = parsed && versionNumber(parsed.version);
  return number === undefined || ranges.some(([from, below]) => number >= from && number < below);
}
