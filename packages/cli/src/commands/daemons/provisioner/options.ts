import { hostname } from 'node:os';
import { AppError } from '@ropewalk/kit';

const KEY_LENGTH = 43;
const MAX_NAME = 64;
/** The rule of upstream's command. The name becomes part of a path, a label and a column. */
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,61}[a-zA-Z0-9]$/;

/** Reads `key=value` texts as tags. The value follows the first `=`. @throws AppError `invalid`. */
export function daemonTags(texts: readonly string[]): Record<string, string> {
  const tags: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1) throw new AppError('invalid', `Invalid --tag ${JSON.stringify(text)}: write it as key=value.`);
    if (text.includes('\0'))
      throw new AppError('invalid', `Invalid --tag ${JSON.stringify(text)}: a tag cannot contain a NUL character.`);
    tags[text.slice(0, at)] = text.slice(at + 1);
  }
  return tags;
}

/**
 * The names of the daemons of one process: the given name, or that of the host. Several daemons are `name-0` and so on.
 * @throws AppError `invalid`.
 */
export function daemonNames(given: string, count: number): string[] {
  const name = given || hostname().split('.')[0]!.toLowerCase();
  const names = count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index}`);
  const wrong = names.find((one) => one.length > MAX_NAME || !NAME.test(one));
  if (wrong === undefined) return names;
  const from = given ? '' : ' The default is the name of this host. Choose another one with --name.';
  throw new AppError(
    'invalid',
    `Invalid daemon name ${JSON.stringify(wrong)}: use 2 to 63 letters, digits and hyphens, and begin and end with a ` +
      `letter or digit.${from}`,
  );
}

/** Checks that the credentials do not contradict each other. @throws AppError `invalid`. */
export function checkCredentials(given: { key: string; psk: string; tag: readonly string[] }): void {
  if (given.key && given.psk) throw new AppError('invalid', 'Use either --key or --psk, not both.');
  if (given.key && given.tag.length > 0)
    throw new AppError('invalid', '--tag (CODER_PROVISIONERD_TAGS) cannot be used with --key: the key sets the tags.');
  if (given.key && given.key.length !== KEY_LENGTH)
    throw new AppError(
      'invalid',
      `Invalid --key (CODER_PROVISIONER_DAEMON_KEY): it has ${given.key.length} characters, and provisioner keys have ${KEY_LENGTH}.`,
    );
}

/** @throws AppError `invalid`. */
export function checkConcurrency(concurrency: number, once: boolean): void {
  if (concurrency < 1 || concurrency > 100)
    throw new AppError('invalid', `Invalid --concurrency ${concurrency}: use a number from 1 to 100.`);
  if (once && concurrency > 1)
    throw new AppError('invalid', '--once cannot be used with --concurrency: it runs one job and exits.');
}
