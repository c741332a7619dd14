// Reads kubeconfig files as kubectl does: clusters, contexts, and users with a token, a client certificate, a password or
// an exec plugin. Credentials for a cloud come from exec plugins. The older `auth-provider` is rejected.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { OutgoingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import { dirname, resolve } from 'node:path';
import { promisify } from 'node:util';
import { AppError, errorText } from '@ropewalk/kit';
import Type from 'typebox';
import Value from 'typebox/value';
import { parse } from 'yaml';

const text = Type.Optional(Type.Union([Type.String(), Type.Null()]));

const Exec = Type.Object({
  apiVersion: Type.String(),
  command: Type.String({ minLength: 1 }),
  args: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  env: Type.Optional(Type.Union([Type.Array(Type.Object({ name: Type.String(), value: Type.String() })), Type.Null()])),
  provideClusterInfo: Type.Optional(Type.Boolean()),
  installHint: text,
});

const Cluster = Type.Object({
  server: Type.String({ pattern: '^https?://' }),
  'certificate-authority': text,
  'certificate-authority-data': text,
  'insecure-skip-tls-verify': Type.Optional(Type.Boolean()),
  'tls-server-name': text,
});

const User = Type.Object({
  token: text,
  tokenFile: text,
  username: text,
  password: text,
  'client-certificate': text,
  'client-certificate-data': text,
  'client-key': text,
  'client-key-data': text,
  as: text,
  'as-uid': text,
  'as-groups': Type.Optional(Type.Array(Type.String())),
  exec: Type.Optional(Type.Union([Exec, Type.Null()])),
  'auth-provider': Type.Optional(Type.Unknown()),
});

const Context = Type.Object({ cluster: Type.String(), user: text, namespace: text });

const File = Type.Object({
  'current-context': text,
  clusters: Type.Optional(Type.Array(Type.Object({ name: Type.String(), cluster: Cluster }))),
  users: Type.Optional(Type.Array(Type.Object({ name: Type.String(), user: Type.Union([User, Type.Null()]) }))),
  contexts: Type.Optional(Type.Array(Type.Object({ name: Type.String(), context: Context }))),
});

type Cluster = Type.Static<typeof Cluster>;
type User = Type.Static<typeof User>;
type Exec = Type.Static<typeof Exec>;

export interface ClusterAccess {
  server: string;
  namespace: string;
  /** TLS settings and headers of a request. Called for each one: files and the credentials of plugins change. */
  options(): Promise<RequestOptions>;
}

/** How a context of the file reaches its cluster. `context` empty: the current one. @throws AppError `invalid`. */
export function readKubeconfig(file: string, context: string): ClusterAccess {
  const bad = (why: string, cause?: unknown) =>
    new AppError('invalid', `Cannot read the kubeconfig "${file}": ${why}`, { cause });
  let config: unknown;
  try {
    config = parse(readFileSync(file, 'utf8'));
  } catch (err) {
    throw bad(errorText(err), err);
  }
  if (!Value.Check(File, config)) {
    const [first] = Value.Errors(File, config);
    throw bad(`${first?.instancePath || '/'} ${first?.message ?? 'is not valid'}`);
  }
  const name = context === '' ? config['current-context'] : context;
  const chosen = config.contexts?.find((one) => one.name === name)?.context;
  const cluster = config.clusters?.find((one) => one.name === chosen?.cluster)?.cluster;
  if (!chosen || !cluster) {
    const what = name ? (chosen ? `no cluster "${chosen.cluster}"` : `no context "${name}"`) : 'no current context';
    throw new AppError('invalid', `The kubeconfig "${file}" has ${what}. Choose a context with --context.`);
  }
  const user = config.users?.find((one) => one.name === chosen.user);
  if (chosen.user && !user) throw bad(`it has no user "${chosen.user}"`);
  if (user?.user?.['auth-provider'])
    throw bad(`the auth-provider of user "${chosen.user}" is not supported. Use an exec plugin.`);
  return {
    server: cluster.server.replace(/\/+$/, ''),
    namespace: chosen.namespace || 'default',
    options: optionsOf(dirname(resolve(file)), cluster, user?.user ?? {}),
  };
}

function optionsOf(folder: string, cluster: Cluster, user: User): () => Promise<RequestOptions> {
  const plugin = user.exec && execPlugin(folder, user.exec, cluster);
  const contents = (data: string | null | undefined, path: string | null | undefined) =>
    data ? Buffer.from(data, 'base64') : path ? readFileSync(resolve(folder, path)) : undefined;
  return async () => {
    const options: RequestOptions = {};
    const headers: OutgoingHttpHeaders = {};
    const ca = contents(cluster['certificate-authority-data'], cluster['certificate-authority']);
    if (ca) options.ca = ca;
    if (cluster['insecure-skip-tls-verify']) options.rejectUnauthorized = false;
    if (cluster['tls-server-name']) options.servername = cluster['tls-server-name'];
    const given = await plugin?.();
    const cert = given?.clientCertificateData ?? contents(user['client-certificate-data'], user['client-certificate']);
    const key = given?.clientKeyData ?? contents(user['client-key-data'], user['client-key']);
    if (cert) options.cert = cert;
    if (key) options.key = key;
    const own = user.tokenFile ? readFileSync(resolve(folder, user.tokenFile), 'utf8').trim() : user.token;
    const token = own || given?.token;
    if (token) headers['Authorization'] = `Bearer ${token}`;
    else if (user.username) options.auth = `${user.username}:${user.password ?? ''}`;
    if (user.as) headers['Impersonate-User'] = user.as;
    if (user['as-uid']) headers['Impersonate-Uid'] = user['as-uid'];
    if (user['as-groups']?.length) headers['Impersonate-Group'] = user['as-groups'];
    return { ...options, headers };
  };
}

const Credential = Type.Object({
  status: Type.Object({
    token: Type.Optional(Type.String()),
    clientCertificateData: Type.Optional(Type.String()),
    clientKeyData: Type.Optional(Type.String()),
    expirationTimestamp: Type.Optional(Type.String()),
  }),
});
type Status = Type.Static<typeof Credential>['status'];

const MAX_PLUGIN_MS = 60_000;

/** Runs the plugin when its last credential has expired. Requests that come meanwhile wait for the same run. */
function execPlugin(folder: string, exec: Exec, cluster: Cluster): () => Promise<Status> {
  let last: Promise<Status> | undefined;
  let expires = Number.POSITIVE_INFINITY;
  // as in a shell, a command with a slash is a path, here from the file's folder
  const command = exec.command.includes('/') ? resolve(folder, exec.command) : exec.command;
  const info = {
    server: cluster.server,
    'tls-server-name': cluster['tls-server-name'] ?? undefined,
    'insecure-skip-tls-verify': cluster['insecure-skip-tls-verify'],
    'certificate-authority-data': cluster['certificate-authority-data'] ?? undefined,
  };
  async function run(): Promise<Status> {
    const spec = { interactive: false, ...(exec.provideClusterInfo ? { cluster: info } : {}) };
    const env = {
      // as a shell gives it to kubectl, except the settings of this program, which hold secrets
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('CODER_'))),
      ...Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value])),
      KUBERNETES_EXEC_INFO: JSON.stringify({ apiVersion: exec.apiVersion, kind: 'ExecCredential', spec }),
    };
    try {
      const { stdout } = await promisify(execFile)(command, exec.args ?? [], { env, timeout: MAX_PLUGIN_MS });
      const { status } = Value.Parse(Credential, JSON.parse(stdout));
      expires = status.expirationTimestamp ? Date.parse(status.expirationTimestamp) : Number.POSITIVE_INFINITY;
      return status;
    } catch (err) {
      last = undefined;
      const hint = exec.installHint ? ` ${exec.installHint}` : '';
      throw new AppError('unavailable', `The exec plugin "${exec.command}" failed: ${errorText(err)}${hint}`, {
        cause: err,
      });
    }
  }
  return () => {
    if (Date.now() >= expires) {
      last = undefined;
      expires = Number.POSITIVE_INFINITY;
    }
    last ??= run();
    return last;
  };
}
