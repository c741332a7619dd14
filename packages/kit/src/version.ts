import { fileURLToPath } from 'node:url';
import { headCommit } from './head-commit.ts';

declare global {
  /** The commit of the single executable. Its build replaces this. Empty if that build was not in a checkout. */
  var PLATFORM_COMMIT: string | undefined;
}

/** The version of upstream that these programs are compatible with. Clients compare major and minor, and nothing else. */
const UPSTREAM = 'v2.36.0';
/** This project's own version. */
const RELEASE = '0.1.0';
const COMMIT = globalThis.PLATFORM_COMMIT ?? headCommit(fileURLToPath(new URL('../../..', import.meta.url))) ?? '';

/**
 * Such as `v2.36.0+platform.0.1.0.9b2cba8d1e5f`. Release and commit are build metadata, which comparisons of semantic
 * versions ignore.
 */
export const VERSION = `${UPSTREAM}+platform.${RELEASE}${COMMIT === '' ? '' : `.${COMMIT}`}`;

export type Version = [major: number, minor: number, patch: number];

/** Parses `1.2.3`, `v1.2` or `1.2.3-rc1+meta`. `parts` is the count of given numbers. The others are 0. */
export function parseVersion(text: string): { version: Version; parts: number } | undefined {
  const match = /^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:[-+][\w.+-]+)?$/.exec(text);
  if (!match) return undefined;
  const given = match.slice(1).filter((part) => part !== undefined);
  const [major = 0, minor = 0, patch = 0] = given.map(Number);
  return { version: [major, minor, patch], parts: given.length };
}

/** Negative, zero or positive as `a` is older than, equal to or newer than `b`. */
export function compareVersions(a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
}

/** Whether the version in `text` is `least` or newer, ignoring pre-release tags. False for a text without a version. */
export function isAtLeast(text: string, least: string): boolean {
  const [version, bound] = [parseVersion(text), parseVersion(least)];
  return version !== undefined && bound !== undefined && compareVersions(version.version, bound.version) >= 0;
}
