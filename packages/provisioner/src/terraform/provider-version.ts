import { AppError } from '@platform/kit';
import { compareVersions, parseVersion, type Version } from '@platform/kit/version';
import { PROVIDER_VERSION } from '@platform/terraform-provider';

/**
 * Terraform does not hold an attached provider against the versions that a template and its modules ask for. This
 * does: a template that asks for more than we implement has to fail. One that asks for an older release is served
 * by ours, which accepts what older ones did.
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
    // The last part that is written may grow.
    '~>': (version) =>
      compareVersions(version, bound) >= 0 &&
      bound.slice(0, Math.max(parts - 1, 1)).every((part, i) => version[i] === part),
  };
  return { bound, holds: operators[match[1] ?? '=']! };
}

/** Whether some release, up to the one that we implement, fits all constraints. An unreadable one is Terraform's matter. */
export function isServed(constraints: readonly string[]): boolean {
  const parsed = constraints.flatMap((text) => text.split(',')).map(parseConstraint);
  const known = parsed.filter((constraint) => constraint !== undefined);
  // What fits lies at a bound or right beside one.
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

/** Which versions of our provider an initialised template and its modules ask for; empty when Terraform cannot tell. */
export async function askedVersions(outputOf: (args: string[]) => Promise<string>): Promise<string[]> {
  // a configuration with errors gives nothing here, and fails in the graph, which reports them
  const output = await outputOf(['providers', '-no-color']);
  return output.split('\n').flatMap((line) => LINE.exec(line)?.[1]?.trim() ?? []);
}

/** @throws AppError `invalid` when no release that we can stand for fits. */
export function checkVersions(asked: readonly string[]): void {
  if (isServed(asked)) return;
  throw new AppError(
    'invalid',
    'initialize terraform: Could not retrieve the list of available versions for provider coder/coder: ' +
      `no available releases match the given constraints ${asked.join(', ')}. ` +
      `This server implements ${PROVIDER_VERSION}. Change "version" in required_providers.`,
  );
}
