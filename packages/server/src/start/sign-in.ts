import type { Services } from '../app/context/context.ts';
import { githubEnabled, oidcEnabled } from '../app/context/login-types.ts';
import { createFlows, type Flows } from '../app/sign-in/flow.ts';
import { createGithub, type GithubProvider } from '../app/sign-in/github.ts';
import type { Providers } from '../app/sign-in/provider.ts';
import {
  createKnownDevices,
  createSignInLimit,
  type KnownDevices,
  type SignInLimit,
} from '../app/sign-in/sign-in-limit.ts';
import type { Installation } from './services.ts';
import type { Starting } from './starting.ts';

export interface SignIn {
  providers: Providers & { github?: GithubProvider };
  flows: Flows;
  limit: SignInLimit;
  /** Of requests for codes and uses of them: they delay no sign-in. */
  passcodeLimit: SignInLimit;
  devices: KnownDevices;
}

/** The ways to sign in that the options enable, and what limits attempts. */
export async function startSignIn(start: Starting, services: Services, installation: Installation): Promise<SignIn> {
  const { config, clock } = start;
  const providers = await startProviders(start, services);
  const { events, replicaId: server } = services;
  const limit = (name: string) =>
    createSignInLimit(clock, { enabled: !config.dangerousDisableRateLimits, shared: { events, server, name } });
  return {
    providers,
    flows: createFlows(installation.tokens, clock, events),
    limit: limit('passwords'),
    passcodeLimit: limit('passcodes'),
    devices: createKnownDevices(installation.deviceKey, clock),
  };
}

async function startProviders({ config, closer }: Starting, services: Services): Promise<SignIn['providers']> {
  const stopped = new AbortController();
  closer.add('identity providers', async () => stopped.abort());
  const providers: SignIn['providers'] = {};
  if (oidcEnabled(config)) {
    // loaded for those who configured it
    const { createOidc } = await import('../app/sign-in/oidc.ts');
    providers.oidc = createOidc(services, stopped.signal);
  }
  if (githubEnabled(config)) providers.github = createGithub(services, stopped.signal);
  return providers;
}
