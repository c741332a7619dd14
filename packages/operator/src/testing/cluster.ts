import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1NodeStatus, V1Taint } from '@kubernetes/client-node';
import { type Authority, type Certified, createCertificate } from '@ropewalk/kit/certificate';
import { freePorts } from '@ropewalk/testkit/ports';
import { eventually } from '@ropewalk/testkit/wait';
import { parse } from 'yaml';
import { CUSTOM_RESOURCES } from '../crd/files.ts';
import { manifestOf } from '../crd/manifest.ts';
import { createKubeClient, type KubeClient } from '../kube/client.ts';
import { type Connection, kubeconfigConnection } from '../kube/connection.ts';
import type { Secret, Service } from '../kube/objects.ts';
import {
  API_SERVICES,
  HTTP_ROUTES,
  type KubeObject,
  REFERENCE_GRANTS,
  type Resource,
  SECRETS,
  SERVICES,
} from '../kube/types.ts';
import { mountFiles } from './mounted-files.ts';

const folder = process.env['KUBERNETES'] ?? '';

/** Skips a test without the programs that scripts/build-kubernetes.sh makes. */
export const needsKubernetes = {
  skip: existsSync(join(folder, 'kube-apiserver')) ? false : 'KUBERNETES is not set: see scripts/build-kubernetes.sh',
};

export const NAMESPACES: Resource = { group: '', version: 'v1', kind: 'Namespace', plural: 'namespaces' };
const NODES: Resource = { group: '', version: 'v1', kind: 'Node', plural: 'nodes' };
export const CRDS: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  kind: 'CustomResourceDefinition',
  plural: 'customresourcedefinitions',
};

const rbac = (kind: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  kind,
  plural: `${kind.toLowerCase()}s`,
});
const CLUSTER_ROLES = rbac('ClusterRole');
const CLUSTER_ROLE_BINDINGS = rbac('ClusterRoleBinding');

export interface Cluster {
  /** As the user `operator`. */
  connection: Connection;
  /** As an administrator. */
  client: KubeClient;
  /** Has the contexts `admin` and `operator`, a user whose rights are those of the chart. */
  kubeconfig: string;
  /** The files that a pod has for its service account, and the variables that a pod has. Default: as the user `operator`. */
  podAccount(account?: { namespace: string; token: string }): PodAccount;
  /** A token of a service account. With `boundTo`, it is valid as long as that Secret exists. */
  accountToken(account: { namespace: string; name: string; boundTo?: string }): Promise<string>;
  /** The certificates of the API server's front proxy, if it has one. */
  frontProxy?: { authority: Authority; client: Certified };
  /** The operator's requests so far, if they are recorded. A watch is recorded when it ends. */
  auditLog(): { verb: string; resource: string }[];
  /** Creates a namespace with a random name. */
  namespace(): Promise<string>;
  /** Kills the API server and starts it again on the same address. */
  restartApiServer(): Promise<void>;
  stop(): Promise<void>;
}

export interface PodAccount {
  folder: string;
  env: NodeJS.ProcessEnv;
  /** Mounts another token, as a kubelet does before the first one expires. */
  replaceToken(token: string): void;
}

/** What the API server records of the operator's requests. */
const AUDIT_POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', users: ['operator'] }],
};

export interface ClusterOptions {
  /** The controllers of the controller manager that run. None by default. */
  controllers?: string[];
  /** More arguments of the controller manager. */
  controllerArgs?: string[];
  /** Whether the scheduler runs. */
  scheduler?: boolean;
  /** Whether the operator's requests are recorded. */
  audit?: boolean;
  /** Whether the API server has a front proxy, which forwards requests to the Services of APIServices. */
  forwards?: boolean;
}

/** Starts etcd, the API server and the other parts that the options name. */
export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  if (needsKubernetes.skip) throw new Error(String(needsKubernetes.skip));
  if (options.scheduler && !existsSync(join(folder, 'kube-scheduler')))
    throw new Error(`${folder} has no kube-scheduler: run scripts/build-kubernetes.sh`);
  const dir = mkdtempSync(join(tmpdir(), 'cluster-'));
  const [etcd, peer, apiServer] = await freePorts(3);
  const ports = { etcd: etcd!, peer: peer!, apiServer: apiServer! };
  const frontProxy = options.forwards ? createFrontProxy() : undefined;
  writeFiles(dir, ports.apiServer, options, frontProxy);
  const kubeconfig = join(dir, 'kubeconfig');
  const cluster = new LocalCluster({
    dir,
    ports,
    options,
    frontProxy,
    kubeconfig,
    client: createKubeClient(await kubeconfigConnection(kubeconfig)),
    connection: await kubeconfigConnection(kubeconfig, 'operator'),
  });
  await cluster.start();
  return cluster;
}

/** The files that the programs of a cluster read. */
function writeFiles(dir: string, port: number, { audit }: ClusterOptions, frontProxy: FrontProxy | undefined): void {
  const write = (name: string, text: string | Buffer) => writeFileSync(join(dir, name), text);
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  write('sa.key', privateKey.export({ type: 'pkcs8', format: 'pem' }));
  write('tokens.csv', 'admin-token,admin,admin,system:masters\noperator-token,operator,operator\n');
  write('kubeconfig', kubeconfigText(port));
  if (audit) write('audit.json', JSON.stringify(AUDIT_POLICY));
  if (frontProxy) {
    write('front-proxy-ca.crt', frontProxy.ca);
    write('front-proxy.crt', frontProxy.client.cert);
    write('front-proxy.key', frontProxy.client.key);
  }
}

interface ClusterParts {
  /** The directory of its files, logs and data. */
  dir: string;
  ports: { etcd: number; peer: number; apiServer: number };
  options: ClusterOptions;
  frontProxy: FrontProxy | undefined;
  kubeconfig: string;
  client: KubeClient;
  connection: Connection;
}

class LocalCluster implements Cluster {
  readonly connection: Connection;
  readonly client: KubeClient;
  readonly kubeconfig: string;
  readonly frontProxy?: FrontProxy;
  readonly #parts: ClusterParts;
  readonly #programs = new Map<string, ChildProcess>();

  constructor(parts: ClusterParts) {
    this.#parts = parts;
    this.connection = parts.connection;
    this.client = parts.client;
    this.kubeconfig = parts.kubeconfig;
    if (parts.frontProxy) this.frontProxy = parts.frontProxy;
  }

  async start(): Promise<void> {
    const { controllers = [], scheduler } = this.#parts.options;
    this.#startEtcd();
    try {
      await this.#startApiServer();
    } catch (err) {
      await this.stop();
      throw err;
    }
    if (controllers.length > 0) this.#startControllerManager(controllers);
    if (scheduler) this.#startScheduler();
  }

  async stop(): Promise<void> {
    for (const name of [...this.#programs.keys()].reverse()) await this.#kill(name);
    rmSync(this.#parts.dir, { recursive: true, force: true });
  }

  async restartApiServer(): Promise<void> {
    await this.#kill('apiserver');
    await this.#startApiServer();
  }

  podAccount({ namespace, token } = { namespace: 'default', token: 'operator-token' }): PodAccount {
    const ca = readFileSync(join(this.#at('certs'), 'apiserver.crt'), 'utf8');
    const filesWith = (text: string) => ({ 'ca.crt': ca, token: text, namespace });
    const mounted = mountFiles(this.#at(`account-${crypto.randomUUID()}`), filesWith(token));
    return {
      folder: mounted.folder,
      env: { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(this.#parts.ports.apiServer) },
      replaceToken: (renewed) => mounted.replace(filesWith(renewed)),
    };
  }

  async accountToken(account: { namespace: string; name: string; boundTo?: string }): Promise<string> {
    const { namespace, name, boundTo } = account;
    const resource = { group: '', version: 'v1', kind: 'TokenRequest', plural: `serviceaccounts/${name}/token` };
    const boundObjectRef = boundTo && { apiVersion: 'v1', kind: 'Secret', name: boundTo };
    const { status } = await this.client.create<KubeObject & { spec: object; status?: { token: string } }>(resource, {
      apiVersion: 'authentication.k8s.io/v1',
      metadata: { namespace, name },
      spec: { expirationSeconds: 3_600, ...(boundObjectRef ? { boundObjectRef } : {}) },
    });
    return status!.token;
  }

  auditLog(): { verb: string; resource: string }[] {
    return readFileSync(this.#at('audit.log'), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { verb: string; objectRef?: { resource: string } })
      .map(({ verb, objectRef }) => ({ verb, resource: objectRef?.resource ?? '' }));
  }

  async namespace(): Promise<string> {
    const name = `test-${crypto.randomUUID().slice(0, 8)}`;
    await this.client.create<KubeObject>(NAMESPACES, { metadata: { name } });
    return name;
  }

  #at(name: string): string {
    return join(this.#parts.dir, name);
  }

  #run(name: string, program: string, args: string[]): void {
    const log = openSync(this.#at(`${name}.log`), 'a');
    this.#programs.set(name, spawn(program, args, { cwd: this.#parts.dir, stdio: ['ignore', log, log] }));
  }

  async #kill(name: string): Promise<void> {
    const child = this.#programs.get(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((done) => child.once('exit', done));
    child.kill('SIGKILL');
    await exited;
  }

  #startEtcd(): void {
    const { ports } = this.#parts;
    this.#run('etcd', 'etcd', [
      `--data-dir=${this.#at('etcd')}`,
      `--listen-client-urls=http://127.0.0.1:${ports.etcd}`,
      `--advertise-client-urls=http://127.0.0.1:${ports.etcd}`,
      `--listen-peer-urls=http://127.0.0.1:${ports.peer}`,
      `--initial-advertise-peer-urls=http://127.0.0.1:${ports.peer}`,
      `--initial-cluster=default=http://127.0.0.1:${ports.peer}`,
      '--unsafe-no-fsync',
    ]);
  }

  /** Starts the API server and waits until it is ready. */
  async #startApiServer(): Promise<void> {
    this.#run('apiserver', join(folder, 'kube-apiserver'), this.#apiServerArgs());
    await eventually('the API server is ready', () =>
      this.client.get(NAMESPACES, '', 'default').then(
        () => true,
        () => {
          const { exitCode } = this.#programs.get('apiserver')!;
          assert.equal(exitCode, null, `the API server ended: see ${this.#at('apiserver.log')}`);
          return false;
        },
      ),
    );
  }

  #apiServerArgs(): string[] {
    const { ports, options, frontProxy } = this.#parts;
    return [
      `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
      `--cert-dir=${this.#at('certs')}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${ports.apiServer}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${this.#at('sa.key')}`,
      `--service-account-signing-key-file=${this.#at('sa.key')}`,
      `--token-auth-file=${this.#at('tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--disable-admission-plugins=ServiceAccount',
      '--service-cluster-ip-range=10.96.0.0/24',
      '--profiling=false',
      ...(frontProxy
        ? [
            `--requestheader-client-ca-file=${this.#at('front-proxy-ca.crt')}`,
            `--requestheader-allowed-names=${FRONT_PROXY_NAME}`,
            '--requestheader-username-headers=X-Remote-User',
            '--requestheader-group-headers=X-Remote-Group',
            '--requestheader-extra-headers-prefix=X-Remote-Extra-',
            `--proxy-client-cert-file=${this.#at('front-proxy.crt')}`,
            `--proxy-client-key-file=${this.#at('front-proxy.key')}`,
          ]
        : []),
      ...(options.audit
        ? [`--audit-policy-file=${this.#at('audit.json')}`, `--audit-log-path=${this.#at('audit.log')}`]
        : []),
    ];
  }

  #startControllerManager(controllers: string[]): void {
    this.#run('controller-manager', join(folder, 'kube-controller-manager'), [
      `--kubeconfig=${this.kubeconfig}`,
      `--controllers=${controllers.join(',')}`,
      '--leader-elect=false',
      '--secure-port=0',
      ...(this.#parts.options.controllerArgs ?? []),
    ]);
  }

  #startScheduler(): void {
    this.#run('scheduler', join(folder, 'kube-scheduler'), [
      `--kubeconfig=${this.kubeconfig}`,
      '--leader-elect=false',
      '--secure-port=0',
    ]);
  }
}

const FRONT_PROXY_NAME = 'front-proxy-client';

type FrontProxy = ReturnType<typeof createFrontProxy>;

function createFrontProxy() {
  const validMs = 86_400_000;
  const { cert: ca, authority } = createCertificate({ name: 'front-proxy-ca', validMs });
  return { ca, authority, client: createCertificate({ name: FRONT_PROXY_NAME, validMs, issuer: authority }) };
}

function kubeconfigText(port: number): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server: `https://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }],
    users: ['admin', 'operator'].map((name) => ({ name, user: { token: `${name}-token` } })),
    contexts: ['admin', 'operator'].map((name) => ({ name, context: { cluster: 'test', user: name } })),
    'current-context': 'admin',
  });
}

const CHART = join(import.meta.dirname, '../../../../charts/coder-operator/files');

/** Gives the operator's user the rules of a file of its chart. */
async function grant({ client }: Cluster, name: string, file: string): Promise<void> {
  await client.apply<KubeObject & { rules: unknown }>(CLUSTER_ROLES, {
    metadata: { name },
    rules: parse(readFileSync(join(CHART, file), 'utf8')),
  });
  await client.apply<Binding>(CLUSTER_ROLE_BINDINGS, {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
    subjects: [OPERATOR],
  });
}

const OPERATOR = { apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'operator' };

type Binding = KubeObject & { roleRef: object; subjects: object[] };

/** Gives the operator the rights to serve the external metrics API, as its chart does. */
export async function permitExternalMetrics(cluster: Cluster): Promise<void> {
  await grant(cluster, 'operator-external-metrics', 'external-metrics-rules.yaml');
  await cluster.client.apply<Binding>(rbac('RoleBinding'), {
    metadata: { namespace: 'kube-system', name: 'operator' },
    roleRef: {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'Role',
      name: 'extension-apiserver-authentication-reader',
    },
    subjects: [OPERATOR],
  });
}

/** Registers the operator on this port of this machine as the server of the external metrics API, and waits for it. */
export async function registerExternalMetrics({ client }: Cluster, namespace: string, port: number): Promise<void> {
  await client.create<Service>(SERVICES, {
    metadata: { namespace, name: 'metrics' },
    spec: { type: 'ExternalName', externalName: 'localhost' },
  });
  await client.create(API_SERVICES, {
    metadata: { name: EXTERNAL_METRICS, annotations: { 'coder.com/inject-ca': 'true' } },
    spec: {
      group: 'external.metrics.k8s.io',
      version: 'v1beta1',
      groupPriorityMinimum: 100,
      versionPriority: 100,
      service: { name: 'metrics', namespace, port },
    },
  } as KubeObject);
  await eventually('the external metrics API is available', async () => {
    const { status } = await client.get<KubeObject & { status?: { conditions?: { type: string; status: string }[] } }>(
      API_SERVICES,
      '',
      EXTERNAL_METRICS,
    );
    return status?.conditions?.some(({ type, status: is }) => type === 'Available' && is === 'True');
  });
}

const EXTERNAL_METRICS = 'v1beta1.external.metrics.k8s.io';

export interface NodeOptions {
  labels?: Record<string, string>;
  taints?: V1Taint[];
  cpu?: string;
}

/** Creates a Secret with these texts, or replaces them. */
export async function storeSecret(
  { client }: Cluster,
  namespace: string,
  name: string,
  texts: Record<string, string>,
): Promise<void> {
  const data = Object.fromEntries(
    Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]),
  );
  await client.apply<Secret>(SECRETS, { metadata: { namespace, name }, data });
}

/** Creates a node that is ready. Nothing runs its pods, unless a test does. */
export async function createNode({ client }: Cluster, name: string, options: NodeOptions = {}): Promise<void> {
  const { labels = {}, taints = [], cpu = '32' } = options;
  const room = { cpu, memory: '64Gi', pods: '110' };
  await client.create<KubeObject & { status: V1NodeStatus }>(NODES, {
    metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
    status: { capacity: room, allocatable: room, conditions: [{ type: 'Ready', status: 'True' }] },
  });
  // the API server adds the taint of a node that is not ready, and no controller removes it here
  await client.merge(NODES, { namespace: '', name }, { spec: { taints } });
}

/** Creates the operator's resources and the rights of its user in a cluster, and waits until the API server has them. */
export async function installOperator(cluster: Cluster): Promise<void> {
  await grant(cluster, 'operator', 'rules.yaml');
  await installResources(cluster);
}

/** Creates the operator's resources, and waits until the API server has them. */
export async function installResources({ client }: Cluster): Promise<void> {
  for (const resource of CUSTOM_RESOURCES) {
    await client.apply(CRDS, manifestOf(resource));
    await isServed(client, resource);
  }
}

/** Creates the published kinds of the Gateway API that the operator uses. */
export async function installGatewayApi({ client }: Cluster): Promise<void> {
  for (const resource of [HTTP_ROUTES, REFERENCE_GRANTS]) {
    const file = join(folder, 'gateway-api', `${resource.group}_${resource.plural}.yaml`);
    if (!existsSync(file)) throw new Error(`No ${file}: run scripts/build-kubernetes.sh`);
    await client.apply(CRDS, parse(readFileSync(file, 'utf8')) as KubeObject);
    await isServed(client, resource);
  }
}

/** Lets resources of one namespace have Roles in another. Needs the Gateway API. */
export async function permitRoles(
  { client }: Cluster,
  { kind, from, to }: { kind: string; from: string; to: string },
): Promise<void> {
  await client.apply(REFERENCE_GRANTS, {
    metadata: { namespace: to, name: `roles-of-${from}` },
    spec: {
      from: [{ group: 'coder.com', kind, namespace: from }],
      to: [{ group: 'rbac.authorization.k8s.io', kind: 'Role' }],
    },
  } as KubeObject);
}

const isServed = (client: KubeClient, resource: Resource) =>
  eventually(`the API server has ${resource.plural}`, () =>
    client.list(resource, {}).then(
      () => true,
      () => false,
    ),
  );
