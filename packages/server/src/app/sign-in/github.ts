/** Sign-in with GitHub, or an installation of GitHub Enterprise, through a browser or with a code on another device. */
import { createHash } from 'node:crypto';
import type { ExternalAuthDevice } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import type { Services } from '../context/context.ts';
import type { CallSource } from '../outbound/provider-calls.ts';
import { avatarFrom, fullName, usernameFrom } from './claims.ts';
import { GithubApi, type GithubUser, jsonOf, type TokenAnswer } from './github-api.ts';
import type { Claims, FlowSecrets, Identity, IdentityProvider, ProviderTokens } from './provider.ts';

export const GITHUB_CALLBACK = '/api/v2/users/oauth2/github/callback';
/** The page that shows the code of a device flow. */
const DEVICE_PAGE = '/login/device';
const SCOPES = 'read:user read:org user:email';
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
/** The maximum number of organizations of a person that are read, in pages of 100. */
const MAX_PAGES = 10;

export interface GithubProvider extends IdentityProvider {
  /** Asks GitHub for a code that the person types there. */
  startDevice(): Promise<ExternalAuthDevice>;
}

/** Whose members may sign in, in lower case. A team has the name of its organization. */
interface AllowedGroups {
  organizations: string[];
  teams: [string, string][];
}

/** @throws AppError `invalid` if the options contradict each other */
function checkOptions(config: Services['config']): AllowedGroups {
  const { oauth2GithubAllowEveryone: everyone, oauth2GithubAllowedOrgs, oauth2GithubAllowedTeams } = config;
  const teams = oauth2GithubAllowedTeams.map((text) => {
    const parts = text.toLowerCase().split('/');
    if (parts.length !== 2 || parts.includes('')) {
      throw new AppError(
        'invalid',
        `Invalid --oauth2-github-allowed-teams value "${text}": write organization/team, with the team's slug.`,
      );
    }
    return parts as [string, string];
  });
  const organizations = oauth2GithubAllowedOrgs.map((name) => name.toLowerCase());
  if (everyone && (organizations.length > 0 || teams.length > 0)) {
    throw new AppError(
      'invalid',
      'Use either --oauth2-github-allow-everyone or --oauth2-github-allowed-orgs and --oauth2-github-allowed-teams.',
    );
  }
  if (!everyone && organizations.length === 0) {
    throw new AppError(
      'invalid',
      'Set --oauth2-github-allowed-orgs to say who may sign in with GitHub, or --oauth2-github-allow-everyone.',
    );
  }
  const outside = teams.find(([organization]) => !organizations.includes(organization));
  if (outside) {
    throw new AppError(
      'invalid',
      `Add "${outside[0]}" to --oauth2-github-allowed-orgs, since --oauth2-github-allowed-teams names its team "${outside[1]}".`,
    );
  }
  return { organizations, teams };
}

export function createGithub(services: Services, closed: AbortSignal): GithubProvider {
  const { config } = services;
  return new Github(services, checkOptions(config), new GithubApi(config, closed));
}

class Github implements GithubProvider {
  readonly type = 'github';
  readonly signUps: IdentityProvider['signUps'];
  readonly device: boolean;
  readonly #services: Services;
  readonly #allowed: AllowedGroups;
  readonly #api: GithubApi;

  constructor(services: Services, allowed: AllowedGroups, api: GithubApi) {
    const { config } = services;
    this.signUps = { allowed: config.oauth2GithubAllowSignups, deniedText: '' };
    this.device = config.oauth2GithubDeviceFlow;
    this.#services = services;
    this.#allowed = allowed;
    this.#api = api;
  }

  async authorizationUrl(flow: FlowSecrets): Promise<URL> {
    const { config, accessUrl } = this.#services;
    if (this.device) {
      return new URL(`${accessUrl}${DEVICE_PAGE}?${new URLSearchParams({ state: flow.state })}`);
    }
    return new URL(
      `${this.#api.web}/login/oauth/authorize?${new URLSearchParams({
        client_id: config.oauth2GithubClientId,
        redirect_uri: this.#redirectUri(),
        scope: SCOPES,
        state: flow.state,
        code_challenge: createHash('sha256').update(flow.pkceVerifier).digest('base64url'),
        code_challenge_method: 'S256',
      })}`,
    );
  }

  async identify(callback: URLSearchParams, flow: FlowSecrets): Promise<Identity> {
    const error = callback.get('error');
    if (error !== null) {
      throw new AppError('unauthenticated', 'GitHub rejected the sign-in.', {
        detail: (callback.get('error_description') ?? error).slice(0, 500),
      });
    }
    const code = callback.get('code') ?? '';
    return this.#identityOf(
      await this.#tokens(
        'Exchange',
        this.device
          ? { grant_type: DEVICE_GRANT, device_code: code }
          : { code, redirect_uri: this.#redirectUri(), code_verifier: flow.pkceVerifier },
      ),
    );
  }

  async refresh(given: ProviderTokens): Promise<{ tokens: ProviderTokens; claims?: Claims }> {
    const renewed = await this.#tokens('TokenSource', {
      grant_type: 'refresh_token',
      refresh_token: given.refreshToken,
    });
    const user = await this.#api.read<GithubUser>('GitAPIAuthUser', '/user', renewed.accessToken);
    await this.#checkMembership(user, renewed.accessToken);
    return { tokens: renewed, claims: claimsOf(user) };
  }

  async startDevice(): Promise<ExternalAuthDevice> {
    if (!this.device) {
      throw new AppError('invalid', 'Signing in with a code is not enabled on this server.', {
        detail: 'An administrator enables it with --oauth2-github-device-flow.',
      });
    }
    const answer = await this.#api.post<ExternalAuthDevice & TokenAnswer>('AuthorizeDevice', '/login/device/code', {
      scope: SCOPES,
    });
    if (!answer.device_code) {
      throw new AppError('unavailable', 'GitHub sent no code.', {
        detail: answer.error_description ?? answer.error ?? 'Try again later.',
      });
    }
    const { device_code, user_code, verification_uri, expires_in, interval } = answer;
    return { device_code, user_code, verification_uri, expires_in, interval };
  }

  #redirectUri(): string {
    return `${this.#services.accessUrl}${GITHUB_CALLBACK}`;
  }

  async #tokens(source: CallSource, values: Record<string, string>): Promise<ProviderTokens> {
    const { config, clock } = this.#services;
    const answer = await this.#api.post<TokenAnswer>(source, '/login/oauth/access_token', {
      client_secret: config.oauth2GithubClientSecret,
      ...values,
    });
    if (typeof answer.access_token !== 'string') {
      // the page of the device flow asks again, depending on the error
      if (values['device_code'])
        throw new AppError('invalid', 'The sign-in with this code is not complete yet.', {
          ...(answer.error ? { detail: answer.error } : {}),
        });
      throw new AppError('unauthenticated', 'GitHub rejected the sign-in.', {
        detail: answer.error_description ?? answer.error ?? 'It gave no token.',
      });
    }
    return {
      accessToken: answer.access_token,
      refreshToken: answer.refresh_token ?? '',
      expiresAt: answer.expires_in ? new Date(clock.now().getTime() + answer.expires_in * 1000) : null,
    };
  }

  /** @throws AppError `forbidden` for people outside of the organizations and teams that may sign in */
  async #checkMembership(user: GithubUser, token: string): Promise<void> {
    if (this.#services.config.oauth2GithubAllowEveryone) return;
    const { organizations, teams } = this.#allowed;
    const memberOf: string[] = [];
    for (let page = 1; page <= MAX_PAGES; page++) {
      const found = await this.#api.read<{ state: string; organization: { login: string } }[]>(
        'GitAPIOrgMemberships',
        `/user/memberships/orgs?state=active&per_page=100&page=${page}`,
        token,
      );
      memberOf.push(
        ...found.filter(({ state }) => state === 'active').map(({ organization }) => organization.login.toLowerCase()),
      );
      if (found.length < 100) break;
    }
    const mine = organizations.filter((name) => memberOf.includes(name));
    if (mine.length === 0) {
      throw new AppError('forbidden', "You aren't a member of a GitHub organization that may sign in.", {
        detail:
          'Ask an administrator for access, or allow this app to see your organization in the settings of GitHub.',
      });
    }
    if (teams.length === 0) return;
    for (const [organization, team] of teams) {
      if (!mine.includes(organization)) continue;
      const path = ['orgs', organization, 'teams', team, 'memberships', user.login].map(encodeURIComponent).join('/');
      const response = await this.#api.get('GitAPITeamMemberships', `/${path}`, token);
      // a person who may not see the team is not in it
      if (response.ok && (await jsonOf<{ state: string }>(response)).state === 'active') return;
    }
    throw new AppError('forbidden', "You aren't a member of a GitHub team that may sign in.", {
      detail: 'Ask an administrator for access.',
    });
  }

  async #identityOf(given: ProviderTokens): Promise<Identity> {
    const token = given.accessToken;
    const user = await this.#api.read<GithubUser>('GitAPIAuthUser', '/user', token);
    if (!Number.isSafeInteger(user.id) || typeof user.login !== 'string') {
      throw new AppError('unavailable', 'GitHub did not answer as expected.', { detail: 'It sent no account.' });
    }
    await this.#checkMembership(user, token);
    const emails = await this.#api.read<{ email: string; primary: boolean; verified: boolean }[]>(
      'GitAPIListEmails',
      '/user/emails',
      token,
    );
    const primary = emails.find((each) => each.primary && each.verified);
    if (!primary) throw new AppError('forbidden', 'Verify your primary email address on GitHub, then try again.');
    return {
      provider: 'github',
      subject: String(user.id),
      email: primary.email,
      username: usernameFrom(user.login, primary.email),
      name: fullName(user.name ?? ''),
      avatarUrl: avatarFrom(user.avatar_url),
      claims: claimsOf(user),
      tokens: given,
    };
  }
}

const claimsOf = ({ id, login, name }: GithubUser): Claims => ({ id, login, ...(name ? { name } : {}) });
