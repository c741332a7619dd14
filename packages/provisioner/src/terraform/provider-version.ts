import { AppError } from '@platform/kit';
import { parseVersion } from '@platform/kit/version';
import { allowedVersions, versionNumber } from '@platform/kit/version-constraint';
import { PROVIDER_VERSION } from '@platform/terraform-provider';

/**
 * Checks the version of our provider against the constraints of a template and its modules, because Terraform does not
 * check an attached provider. A template that requires a newer release than we implement fails. A template that
 * requires an older release works with ours, because ours accepts everything that older releases accept.
 */
const LINE = /provider\[registry\.(?:terraform\.io|opentofu\.org)\/(?:coder|hashicorp)\/coder\]\s+(.+)$/;

const IMPLEMENTED = parseVersion(PROVIDER_VERSION)!.version;

/** Whether a release up to ours satisfies all constraints. Ignores an unreadable constraint: Terraform reports it. */
export function isServed(constraints: readonly string[]): boolean {
  return allowedVersions(constraints).some(([from]) => from <= versionNumber(IMPLEMENTED)!);
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
