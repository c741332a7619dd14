import { join } from 'node:path';
import { requiredProviders } from '@ropewalk/hcl';
import { AppError } from '@ropewalk/kit';
import { parseVersion } from '@ropewalk/kit/version';
import { allowedVersions, versionNumber } from '@ropewalk/kit/version-constraint';
import { ADDRESSES, PROVIDER_VERSION } from '@ropewalk/terraform-provider';
import { moduleFolders } from './modules.ts';
import { sourceFiles } from './source-files.ts';

/**
 * Checks the version of our provider against the constraints of a template and its modules, because Terraform does not
 * check an attached provider. A template that requires a newer release than we implement fails. A template that
 * requires an older release works with ours, because ours accepts everything that older releases accept.
 */
const IMPLEMENTED = parseVersion(PROVIDER_VERSION)!.version;

/** Whether a release up to ours satisfies all constraints. Ignores an unreadable constraint: Terraform reports it. */
export function isServed(constraints: readonly string[]): boolean {
  return allowedVersions(constraints).some(([from]) => from <= versionNumber(IMPLEMENTED)!);
}

/**
 * The version constraints for our provider in an initialized template and its modules. With `uid`, this reads only
 * files that a build with this uid can read. Leaves out what cannot be read: Terraform reports it.
 */
export async function askedVersions(dir: string, uid: number | undefined): Promise<string[]> {
  const asked: string[] = [];
  for (const folder of await moduleFolders(dir))
    for (const { name, source, version } of requiredProviders(await sourceFiles(join(dir, folder), uid)))
      if (isOurs(name, source)) asked.push(version);
  return asked;
}

/** Whether a provider is ours. Without a source it is one of the namespace `hashicorp`, with its name as its type. */
function isOurs(name: string, source = name): boolean {
  const [type, namespace = 'hashicorp', host] = source.toLowerCase().split('/').reverse();
  return ADDRESSES.some((address) => {
    const [ownHost, ownNamespace, ownType] = address.split('/');
    return type === ownType && namespace === ownNamespace && (host === undefined || host === ownHost);
  });
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
