import { AppError } from '@platform/kit';
import { compareVersions, parseVersion, type Version } from '@platform/kit/version';
import { PROVIDER_VERSION } from '@platform/terraform-provider';

/**
 * Checks the version of our provider against the constraints of a template and its modules, because Terraform does not
 * check an attached provider. A template that requires a newer release than we implement fails. A template that
 * requires an older release works with ours, because ours accepts everything that older releases accept.
 */
type Constraint = (version: Version) => boolean;

const LINE = /provider\[registry\.terraform\.io\/(?:coder|hashicorp)\/coder\]\s+(.+)$/;

const IMPLEMENTED = parseVersion(PROVIDER_VERSION)!.version;

function parseConstraint(text: string): { bound: Version; holds: Constraint } | undefined {
  const match = /^(=|!=|>=|<=|>|<|~>)?\s*(\S+)$/.exec(text.trim());
  const parsed = match && parseVersion(match[2]!);
  if (!match || !parsed) return undefined;
  const { version: bound, parts } = parsed;
  const operators: Record<string, Constraint> = {
    '=': (version) => compareVersions(version, bound) === 0,
    '!=': (version) => compareVersions(version, bound) !== 0,
    '>=': (version) => compareVersions(version, bound) >= 0,
    '<=': (version) => compareVersions(version, bound) <= 0,
    '>': (version) => compareVersions(version, bound) > 0,
    '<': (version) => compareVersions(version, bound) < 0,
    // The last written part may increase.
    '~>': (version) =>
      compareVersions(version, bound) >= 0 &&
      bound.slice(0, Math.max(parts - 1, 1)).every((part, i) => version[i] === part),
  };
  return { bound, holds: operators[match[1] ?? '=']! };
}

/** Whether a release up to ours satisfies all constraints. Ignores an unreadable constraint: Terraform reports it. */
export function isServed(constraints: readonly string[]): boolean {
  const parsed = constraints.flatMap((text) => text.split(',')).map(parseConstraint);
  const known = parsed.filter((constraint) => constraint !== undefined);
  // If any release satisfies the constraints, then one at a bound or next to a bound does.
  const beside = ([major, minor, patch]: Version): Version[] => [
    [major, minor, patch],
    [major, minor, patch + 1],
    ...(patch > 0 ? [[major, minor, patch - 1] satisfies Version] : []),
    ...(minor > 0 ? [[major, minor - 1, 999] satisfies Version] : []),
    ...(major > 0 ? [[major - 1, 999, 999] satisfies Version] : []),
  ];
  const releases = [IMPLEMENTED, [0, 0, 1] satisfies Version, ...known.flatMap(({ bound }) => beside(bound))];
  return releases.some(
    (version) => compareVersions(version, IMPLEMENTED) <= 0 && known.every(({ holds }) => holds(version)),
  );
}

/** The version constraints for our provider in an initialized template and its modules. Empty if Terraform fails. */
export async function askedVersions(outputOf: (args: string[]) => Promise<string>): Promise<string[]> {
  // for a configuration with errors the output is empty, and `terraform graph` reports the errors later
  const output = await outputOf(['providers', '-no-color']);
  return output.split('\n').flatMap((line) => LINE.exec(line)?.[1]?.trim() ?? []);
}

/** @throws AppError `invalid` if no release up to ours satisfies the constraints. */
export function checkVersions(asked: readonly string[]): void {
  if (isServed(asked)) return;
  throw new AppError(
    'invalid',
    'initialize terraform: Could not retrieve the list of available versions for provider coder/coder: ' +
      `no available releases match the given constraints ${asked.join(', ')}. ` +
      `This server implements ${PROVIDER_VERSION}. Change "version" in required_providers.`,
  );
}
