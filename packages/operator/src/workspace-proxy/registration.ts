// The proxy of a CoderWorkspaceProxy with `bootstrap` at its server: created once, with its token in a Secret, kept as the spec
// says, and deleted with the CoderWorkspaceProxy.
import { ApiError, type Client, createClient, UnreachableError } from '@ropewalk/client';
import { nodeFetch } from '@ropewalk/client/node-fetch';
import type { WorkspaceProxy as ProxyAtServer } from '@ropewalk/contract';
import { WORKSPACE_PROXIES, type WorkspaceProxy, type WorkspaceProxySpec } from '../crd/workspace-proxy.ts';
import { ignoreNotFound } from '../kube/client.ts';
import type { Secret } from '../kube/objects.ts';
import { SECRETS } from '../kube/types.ts';
import { requireOwn } from '../machinery/apply.ts';
import { isOfThatTime } from '../machinery/creation-notes.ts';
import { hasFinalizer, setFinalizer } from '../machinery/finalizers.ts';
import { keyOf } from '../machinery/informer.ts';
import { clientFor, problemOf, ServerProblem } from '../provisioner/server.ts';
import { TOKEN_KEY, tokenOf } from '../provisioner/target.ts';
import type { World } from '../world.ts';
import { annotationsOf, FINALIZER, pendingProxies, proxyInSecret, proxyInStatus, type ServerProxy } from './facts.ts';
import { owned } from './objects.ts';

/** How long a deletion waits for a server that does not answer, in ms. */
const GIVE_UP_MS = 120_000;

type Bootstrap = NonNullable<WorkspaceProxySpec['bootstrap']>;

/** What the spec asks of the proxy at the server. Without a value, the server's stays. */
function wantedFields({ metadata }: WorkspaceProxy, { proxyName, displayName, icon }: Bootstrap) {
  return {
    name: proxyName || metadata.name,
    ...(displayName === undefined ? {} : { display_name: displayName }),
    ...(icon === undefined ? {} : { icon }),
  };
}

const urlOf = ({ coderURL }: Bootstrap): string => coderURL.replace(/\/+$/, '');

/** Where the token of the proxy is stored. */
const tokenSecretOf = ({ metadata }: WorkspaceProxy, { generatedTokenSecretName }: Bootstrap): string =>
  generatedTokenSecretName || `${metadata.name}-proxy-token`;

/** The problem behind an error of a call about proxies. */
function proxyProblem(err: unknown, url: string): ServerProblem {
  if (!(err instanceof ApiError) || (err.status !== 403 && err.status !== 404))
    return problemOf(err, { url, organization: '' });
  const [reason, message] =
    err.status === 403
      ? ['Forbidden', `The token's user may not manage workspace proxies at ${url}. Use the token of an Owner.`]
      : ['NotSupported', `${url} has no workspace proxies. Check bootstrap.coderURL, or update the server.`];
  return new ServerProblem('OperatorAccessReady', reason, message);
}

/** Connects to the server of a proxy with the API token of `bootstrap`. A rejected token is read again the next time. */
async function atServer<T>(
  world: World,
  proxy: WorkspaceProxy,
  bootstrap: Bootstrap,
  run: (client: Client) => Promise<T>,
): Promise<T> {
  const url = urlOf(bootstrap);
  const token = await apiToken(world, proxy, bootstrap);
  try {
    return await run(clientFor({ url, token }));
  } catch (err) {
    if (err instanceof ApiError && err.status === 401)
      world.lookup.forget(SECRETS, proxy.metadata.namespace!, bootstrap.credentialsSecretRef.name);
    throw err;
  }
}

/** In a namespace that is deleted, the Secret may go before the proxy: then the token that was used last. */
async function apiToken(world: World, proxy: WorkspaceProxy, bootstrap: Bootstrap): Promise<string> {
  const { namespace = '', deletionTimestamp } = proxy.metadata;
  const { name, key } = bootstrap.credentialsSecretRef;
  const url = urlOf(bootstrap);
  try {
    const token = await tokenOf(world.lookup, { namespace, name, key: key || TOKEN_KEY });
    world.proxyTokens.set(keyOf(proxy), { url, token });
    return token;
  } catch (err) {
    const last = world.proxyTokens.get(keyOf(proxy));
    if (deletionTimestamp && last?.url === url) return last.token;
    throw err;
  }
}

/** The proxy with this id or name. Undefined if the server has none. */
async function find(client: Client, workspaceproxy: string): Promise<ProxyAtServer | undefined> {
  try {
    return await client.call('GET /workspaceproxies/{workspaceproxy}', { params: { workspaceproxy } });
  } catch (err) {
    if (err instanceof ApiError && err.status === 404) return undefined;
    throw err;
  }
}

/**
 * Creates the proxy, or changes it as the spec says. Returns the Secret with its token and where it is at the server. A proxy whose
 * token is lost gets another one, also after someone has regenerated it. @throws ServerProblem, or NameTaken for the Secret.
 */
export async function register(
  world: World,
  proxy: WorkspaceProxy,
  bootstrap: Bootstrap,
): Promise<{ secret: Secret; at: ServerProxy }> {
  const { namespace = '' } = proxy.metadata;
  const secretName = tokenSecretOf(proxy, bootstrap);
  const stored = world.caches.secrets.get(namespace, secretName);
  const inSecret = stored?.data?.[TOKEN_KEY] ? proxyInSecret(world.proofs, proxy, stored) : undefined;
  const url = urlOf(bootstrap);
  const wanted = wantedFields(proxy, bootstrap);
  try {
    return await atServer(world, proxy, bootstrap, async (client) => {
      const known = [inSecret, proxyInStatus(proxy)].find((each) => each?.url === url);
      const found = known && (await find(client, known.id));
      if (found && stored && known === inSecret && (await isAccepted(url, stored))) {
        await update(client, found, wanted);
        return { secret: stored, at: known };
      }
      // before a proxy or a token exists that cannot be stored
      await requireOwn(world.client, SECRETS, owned.metaOf(proxy, secretName), stored);
      const { id, token } = found
        ? await renew(client, found, wanted)
        : await create(world, proxy, { url, wanted, client });
      const at = { id, url };
      const secret = await world.client.apply<Secret>(SECRETS, {
        metadata: { ...owned.metaOf(proxy, secretName), annotations: annotationsOf(world.proofs, proxy, at) },
        type: 'Opaque',
        data: { [TOKEN_KEY]: Buffer.from(token).toString('base64') },
      });
      world.caches.secrets.store(secret);
      return { secret, at };
    });
  } catch (err) {
    if (err instanceof ApiError && err.status === 409 && err.validations.some(({ field }) => field === 'name'))
      throw nameTaken(url, wanted.name);
    throw err instanceof ApiError || err instanceof UnreachableError ? proxyProblem(err, url) : err;
  }
}

/** Whether the server knows the stored token. */
async function isAccepted(url: string, { data }: Secret): Promise<boolean> {
  const token = Buffer.from(data![TOKEN_KEY]!, 'base64').toString();
  const client = createClient({ url, token: '', fetch: nodeFetch, headers: { 'Coder-External-Proxy-Token': token } });
  try {
    await client.call('GET /workspaceproxies/me/crypto-keys', { query: { feature: 'workspace_apps_token' } });
    return true;
  } catch (err) {
    if (err instanceof ApiError && err.status === 401) return false;
    throw err;
  }
}

type Wanted = ReturnType<typeof wantedFields>;

async function update(client: Client, found: ProxyAtServer, wanted: Wanted): Promise<void> {
  const { name, display_name = found.display_name, icon = found.icon_url } = wanted;
  if (name === found.name && display_name === found.display_name && icon === found.icon_url) return;
  const params = { workspaceproxy: found.id };
  await client.call('PATCH /workspaceproxies/{workspaceproxy}', { params, body: wanted });
}

/** Replaces the token of a proxy that the operator created, whose Secret is lost. */
async function renew(client: Client, { id }: ProxyAtServer, wanted: Wanted): Promise<{ id: string; token: string }> {
  const body = { ...wanted, regenerate_token: true };
  const params = { workspaceproxy: id };
  const { proxy_token } = await client.call('PATCH /workspaceproxies/{workspaceproxy}', { params, body });
  return { id, token: proxy_token };
}

/** Creates the proxy, or takes over the one that an operator created just before it ended. @throws ServerProblem for a taken name */
async function create(
  world: World,
  proxy: WorkspaceProxy,
  { url, wanted, client }: { url: string; wanted: Wanted; client: Client },
): Promise<{ id: string; token: string }> {
  const existing = await find(client, wanted.name);
  if (existing) {
    const pending = pendingProxies.read(world.proofs, proxy);
    if (pending?.url === url && pending.name === existing.name && isOfThatTime(pending, existing))
      return renew(client, existing, wanted);
    throw nameTaken(url, wanted.name);
  }
  await reportElsewhere(world, proxy, url);
  await pendingProxies.write(world, world.caches.proxies, proxy, { name: wanted.name, url });
  const { proxy: created, proxy_token } = await client.call('POST /workspaceproxies', { body: wanted });
  return { id: created.id, token: proxy_token };
}

/** Taking over a proxy would replace its token, and its processes would lose their connection. */
const nameTaken = (url: string, name: string) =>
  new ServerProblem(
    'ControlPlaneReady',
    'ProxyNameTaken',
    `${url} already has a workspace proxy "${name}", which this resource did not create. Choose another ` +
      'bootstrap.proxyName, delete the proxy at the server, or store its token in a Secret and name that in proxySessionTokenSecretRef.',
  );

/**
 * Deletes the proxy at the server, and lets the deletion of the CoderWorkspaceProxy go on. Returns when to try again, in ms, if the
 * server does not answer. After two minutes it no longer holds up the deletion.
 */
export async function finalize(world: World, proxy: WorkspaceProxy, againMs: number): Promise<number | undefined> {
  if (!hasFinalizer(proxy, FINALIZER)) return undefined;
  const { bootstrap } = proxy.spec;
  try {
    if (bootstrap) await deleteProxies(world, proxy, bootstrap);
  } catch (err) {
    const problem = proxyProblem(err, bootstrap!.coderURL);
    const since = Date.parse(proxy.metadata.deletionTimestamp ?? '');
    const isWaiting = problem.reason === 'Unreachable' && world.clock.now().getTime() - since < GIVE_UP_MS;
    const next = isWaiting ? 'The operator tries again.' : 'Delete it with "coder wsproxy delete".';
    const text = `Could not delete the proxy of "${proxy.metadata.name}" at ${bootstrap!.coderURL} (${problem.reason}): ${problem.message} ${next}`;
    // a namespace that is deleted takes no events
    world.log.warn(text);
    await world.report(WORKSPACE_PROXIES, proxy, 'Warning', 'ProxyNotDeleted', text);
    if (isWaiting) return againMs;
  }
  world.proxyTokens.delete(keyOf(proxy));
  await setFinalizer(world.client, WORKSPACE_PROXIES, proxy, FINALIZER, false).catch(ignoreNotFound);
  return undefined;
}

/** Deletes what the operator created at the server of the spec. Its token is for no other server. */
async function deleteProxies(world: World, proxy: WorkspaceProxy, bootstrap: Bootstrap): Promise<void> {
  const { namespace = '' } = proxy.metadata;
  const url = urlOf(bootstrap);
  const secret = world.caches.secrets.get(namespace, tokenSecretOf(proxy, bootstrap));
  const known = [proxyInSecret(world.proofs, proxy, secret), proxyInStatus(proxy)];
  const ids = new Set(known.flatMap((each) => (each?.url === url ? [each.id] : [])));
  const pending = pendingProxies.read(world.proofs, proxy);
  await atServer(world, proxy, bootstrap, async (client) => {
    if (pending?.url === url) {
      const found = await find(client, pending.name);
      if (found && isOfThatTime(pending, found)) ids.add(found.id);
    }
    for (const workspaceproxy of ids) {
      if (await find(client, workspaceproxy))
        await client.call('DELETE /workspaceproxies/{workspaceproxy}', { params: { workspaceproxy } });
    }
  });
  await reportElsewhere(world, proxy, url);
}

/** Says where a proxy may remain, because the operator has no token for its server any more. */
async function reportElsewhere(world: World, proxy: WorkspaceProxy, url: string): Promise<void> {
  const last = proxyInStatus(proxy);
  if (!last || last.url === url) return;
  const text = `The proxy ${last.id} may remain at ${last.url}. Delete it there with "coder wsproxy delete".`;
  await world.report(WORKSPACE_PROXIES, proxy, 'Warning', 'ProxyNotDeleted', text);
}
