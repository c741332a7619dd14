import { OAuth2Failure } from './failure.ts';

/** The parameters of a query or a form. A parameter without a value counts as absent. */
export type Parameters = (name: string) => string | undefined;

/** Longer than any parameter of the protocol. A state may hold what an app must remember. */
const MAX_CHARACTERS = 8_192;

/**
 * @param names the parameters that the endpoint reads. Others are ignored
 * @throws OAuth2Failure `invalid_request` if one of these occurs twice (RFC 6749, section 3.1), or is too long
 */
export function readParameters(values: URLSearchParams, names: readonly string[]): Parameters {
  const found = new Map<string, string>();
  for (const name of names) {
    const [value = '', ...more] = values.getAll(name);
    if (more.length > 0) throw new OAuth2Failure('invalid_request', `The parameter ${name} occurs more than once.`);
    if (value.length > MAX_CHARACTERS || value.includes('\0'))
      throw new OAuth2Failure('invalid_request', `The parameter ${name} is not valid.`);
    if (value !== '') found.set(name, value);
  }
  return (name) => found.get(name);
}
