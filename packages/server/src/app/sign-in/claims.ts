import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { isReservedUsername } from '@ropewalk/rules';
import type { Config } from '../../config/options.ts';
import { randomText } from '../values/token.ts';
import type { Claims } from './provider.ts';

const text = (value: unknown): string => (typeof value === 'string' ? value.trim() : '');

/** Claims of the protocol. Only the signed ID token states them. */
const PROTOCOL = new Set(['iss', 'sub', 'aud', 'exp', 'iat', 'nbf', 'nonce', 'azp', 'at_hash', 'c_hash', 'auth_time']);

/** The claims of the ID token, with those of the userinfo endpoint over them. Blank ones replace nothing. */
export function mergeClaims(idToken: Claims, userInfo: Claims): Claims {
  const merged = { ...idToken };
  for (const [name, value] of Object.entries(userInfo)) {
    if (!PROTOCOL.has(name) && value !== null && value !== undefined && value !== '') merged[name] = value;
  }
  return merged;
}

/** The texts of a claim that is a list, a single text, or absent. */
export function claimTexts(claims: Claims, field: string): string[] {
  const value = ownValue(claims, field);
  const list = Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
  return [...new Set(list.map(text).filter(Boolean))];
}

/** A valid user name, as close as possible to the first of these texts that has usable characters. */
export function usernameFrom(...candidates: string[]): string {
  for (const candidate of candidates) {
    const name = candidate
      .replace(/@.*$/, '')
      .replaceAll(/[^a-zA-Z0-9]+/g, '-')
      .slice(0, 32)
      .replaceAll(/^-+|-+$/g, '');
    if (name !== '' && !isReservedUsername(name)) return name;
  }
  return `user-${randomText(8).toLowerCase()}`;
}

/** The same name with a random ending, for when another account has it. */
export const otherUsername = (name: string): string => `${name.slice(0, 26)}-${randomText(5).toLowerCase()}`;

/** The name as an account may have it: one line of 128 characters. */
export const fullName = (name: string): string =>
  name
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a full name has none
    .replaceAll(/[\u0000-\u001f\u007f]+/g, ' ')
    .trim()
    .slice(0, 128)
    .trim();

/** An address of a picture that a browser may load, or nothing. */
export function avatarFrom(value: unknown): string {
  const url = text(value);
  return url.length <= 4_096 && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol) ? url : '';
}

type Settings = Pick<
  Config,
  'oidcEmailField' | 'oidcUsernameField' | 'oidcNameField' | 'oidcIgnoreEmailVerified' | 'oidcEmailDomain'
>;

/**
 * Whether a provider has verified the email address. The claim may be a text or a number, as upstream reads it. An absent
 * claim states nothing: anyone who can choose an address at the provider would get the account that has it here.
 */
const isVerified = (claim: unknown): boolean =>
  claim === true ||
  (typeof claim === 'number' && claim !== 0) ||
  (typeof claim === 'string' && /^(1|t|true)$/i.test(claim));

const isEmail = (value: string) => value.length <= 254 && /^[^\s@]+@[^\s@]+$/.test(value);

/** What the claims of an OpenID Connect provider say of a person. @throws AppError `forbidden` for other people */
export function personOf(
  claims: Claims,
  config: Settings,
): { email: string; username: string; name: string; avatarUrl: string } {
  const username = text(claims[config.oidcUsernameField]);
  let email = text(claims[config.oidcEmailField]);
  // some providers use the address as the user name
  if (email === '' && isEmail(username)) email = username;
  if (!isEmail(email)) {
    throw new AppError('forbidden', 'The identity provider sent no email address.', {
      detail: `The claim "${config.oidcEmailField}" is missing or not an email address. Ask an administrator to request it from the provider (--oidc-scopes, --oidc-email-field).`,
    });
  }
  if (!isVerified(claims['email_verified']) && !config.oidcIgnoreEmailVerified) {
    throw new AppError('forbidden', `Verify the email address "${email}" at your identity provider, then try again.`, {
      detail:
        'The provider does not say that the address is verified (claim "email_verified"). ' +
        'If it never does, an administrator can accept its addresses with --oidc-ignore-email-verified.',
    });
  }
  const domain = email.slice(email.lastIndexOf('@') + 1).toLowerCase();
  const domains = config.oidcEmailDomain.map((each) => each.replace(/^@/, '').toLowerCase());
  if (domains.length > 0 && !domains.includes(domain)) {
    throw new AppError('forbidden', `The email address "${email}" is not in an allowed domain.`, {
      detail: 'Sign in with another account of the provider, or ask an administrator.',
    });
  }
  return {
    email,
    username: usernameFrom(username, email),
    name: fullName(text(claims[config.oidcNameField])),
    avatarUrl: avatarFrom(claims['picture']),
  };
}
