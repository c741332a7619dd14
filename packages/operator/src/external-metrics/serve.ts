// Serves the external metrics API, for a HorizontalPodAutoscaler that scales a CoderProvisioner without spec.autoscaling. The
// API server forwards requests to the Service of an APIService. It is the only client: it presents the certificate of its front
// proxy and names the person, who must have the right to list the metric.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { type Certified, createCertificate } from '@ropewalk/kit/certificate';
import { KubeError } from '../kube/client.ts';
import { API_SERVICES, CONFIG_MAPS, type KubeObject, SUBJECT_ACCESS_REVIEWS } from '../kube/types.ts';
import { type Informer, startInformer } from '../machinery/informer.ts';
import { createQueue, type WorkQueue } from '../machinery/queue.ts';
import { ServerProblem } from '../provisioner/server.ts';
import type { World } from '../world.ts';
import { type CertificateFiles, type CertificateWatch, watchCertificate } from './certificate-files.ts';
import { type FrontProxy, type FrontProxyConfig, frontProxyOf, type User, userOf } from './front-proxy.ts';
import { parseSelector } from './label-selector.ts';
import { GROUP, isMetric, RESOURCES, VERSION, valuesOf } from './metrics.ts';

export interface ExternalMetricsOptions {
  host: string;
  port: number;
  /** Files of the certificate and its key. Without them it makes its own, and stores that in its APIService. */
  files?: CertificateFiles | undefined;
  /** How often to look for changed files, in ms. */
  lookMs?: number;
}

export interface ExternalMetrics {
  readonly port: number;
  close(): Promise<void>;
}

interface ApiService extends KubeObject {
  spec: { service?: { name: string; namespace: string }; caBundle?: string };
}

const ROOT = `/apis/${GROUP}/${VERSION}`;
const API_SERVICE = `${VERSION}.${GROUP}`;
const FRONT_PROXY = 'extension-apiserver-authentication';
/** On an APIService whose caBundle the operator writes. Others belong to someone else. */
const INJECT_CA = 'coder.com/inject-ca';
/** The key of its own certificate is in memory only, and ends with the process. */
const VALID_MS = 10 * 365 * 86_400_000;
const LOOK_MS = 10_000;

/** An answer with an error status. */
class Rejection extends Error {
  readonly code: number;
  readonly reason: string;
  constructor(code: number, reason: string, message: string) {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

/** Starts to serve. @throws AppError if the files cannot be read or the address is taken. */
export async function serveExternalMetrics(
  world: World,
  options: ExternalMetricsOptions,
  log: Logger,
): Promise<ExternalMetrics> {
  const server = new MetricsServer(world, options, log);
  const port = await server.listen();
  return { port, close: () => server.close() };
}

class MetricsServer {
  readonly #world: World;
  readonly #options: ExternalMetricsOptions;
  readonly #log: Logger;
  readonly #server: Server;
  readonly #frontProxies: Informer<FrontProxyConfig>;
  readonly #files: CertificateWatch | undefined;
  /** Without files: the APIService that gets the certificate, and the queue of its changes. */
  readonly #apiServices: Informer<ApiService> | undefined;
  readonly #injecting: WorkQueue;
  #certified: (Certified & { host?: string }) | undefined;
  #proxy: FrontProxy | undefined;
  /** Whether the APIService belongs to someone else. */
  #isForeign = false;

  constructor(world: World, options: ExternalMetricsOptions, log: Logger) {
    const { files } = options;
    this.#world = world;
    this.#options = options;
    this.#log = log;
    this.#server = createServer({ requestCert: true, rejectUnauthorized: false, ca: [] }, (request, response) => {
      void this.#answer(request, response);
    });
    this.#files = files && this.#watchFiles(files);
    this.#certified = this.#files?.certified;
    this.#injecting = createQueue({ concurrency: 1, work: () => this.#injectCa(), log });
    this.#frontProxies = this.#followFrontProxy();
    this.#apiServices = files ? undefined : this.#followApiService();
  }

  /** Returns the port. @throws AppError if the address is taken */
  async listen(): Promise<number> {
    const { host, port } = this.#options;
    const server = this.#server;
    try {
      this.#renew();
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, host, resolve);
      });
    } catch (err) {
      await this.close();
      throw new AppError('unavailable', `Could not serve the external metrics API: ${errorText(err)}`, { cause: err });
    }
    server.on('error', (err) => this.#log.warn('external metrics API', { err: errorText(err) }));
    return (server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#files?.stop();
    this.#server.close();
    this.#server.closeAllConnections();
    await Promise.all([this.#injecting.stop(), this.#frontProxies.stop(), this.#apiServices?.stop()]);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let code = 200;
    let body: object;
    try {
      body = await answerTo(this.#world, request, this.#proxy);
    } catch (err) {
      const rejection = rejectionOf(err);
      if (rejection.code >= 500)
        this.#log.warn('cannot answer for a metric', { url: request.url, err: errorText(err) });
      code = rejection.code;
      const { reason, message } = rejection;
      body = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code };
    }
    response.writeHead(code, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(body));
  }

  /** Uses the certificate and the authority of the front proxy for new connections. Requests in progress continue. */
  #renew(): void {
    if (!this.#certified) return;
    const { cert, key } = this.#certified;
    this.#server.setSecureContext({ cert, key, ca: this.#proxy ? [this.#proxy.ca] : [] });
    this.#server.closeIdleConnections();
  }

  #watchFiles(files: CertificateFiles): CertificateWatch {
    return watchCertificate(files, {
      lookMs: this.#options.lookMs ?? LOOK_MS,
      log: this.#log,
      onChange: (now) => {
        this.#certified = now;
        this.#renew();
        this.#log.info('serving the external metrics API with a changed certificate');
      },
    });
  }

  #followFrontProxy(): Informer<FrontProxyConfig> {
    return startInformer<FrontProxyConfig>({
      client: this.#world.client,
      resource: CONFIG_MAPS,
      scope: { namespace: 'kube-system', ...named(FRONT_PROXY) },
      log: this.#log,
      onChange: (now) => {
        const last = this.#proxy?.ca;
        this.#proxy = now && frontProxyOf(now);
        this.#renew();
        // an authority that was withdrawn may not vouch for anyone on an open connection
        if (this.#proxy?.ca !== last) this.#server.closeAllConnections();
      },
    });
  }

  #followApiService(): Informer<ApiService> {
    return startInformer<ApiService>({
      client: this.#world.client,
      resource: API_SERVICES,
      scope: named(API_SERVICE),
      log: this.#log,
      onChange: () => this.#injecting.add(API_SERVICE),
    });
  }

  /** Puts its own certificate into the APIService, and makes one for the Service that is named there. */
  async #injectCa(): Promise<undefined> {
    const found = this.#apiServices?.get('', API_SERVICE);
    const service = found?.spec.service;
    if (!found || !service) return;
    const wasForeign = this.#isForeign;
    this.#isForeign = found.metadata.annotations?.[INJECT_CA] !== 'true';
    if (this.#isForeign) {
      if (!wasForeign)
        this.#log.warn(`left an APIService unchanged: it lacks the annotation ${INJECT_CA}=true`, {
          name: API_SERVICE,
        });
      return;
    }
    const name = `${service.name}.${service.namespace}.svc`;
    const { cert } = this.#certificateFor(name);
    const caBundle = Buffer.from(cert).toString('base64');
    if (found.spec.caBundle === caBundle) return;
    const { resourceVersion } = found.metadata;
    await this.#world.client.merge(
      API_SERVICES,
      { namespace: '', name: API_SERVICE },
      { metadata: { resourceVersion }, spec: { caBundle } },
    );
    this.#log.info('stored the certificate of the external metrics API in its APIService', { service: name });
  }

  /** The own certificate, a new one if the last one is for another host. */
  #certificateFor(host: string): Certified {
    if (this.#certified?.host === host) return this.#certified;
    const certified = { ...createCertificate({ name: host, hosts: [host], validMs: VALID_MS }), host };
    this.#certified = certified;
    this.#renew();
    return certified;
  }
}

const named = (name: string) => ({ fieldSelector: `metadata.name=${name}` });

async function answerTo(world: World, request: IncomingMessage, proxy: FrontProxy | undefined): Promise<object> {
  const user = proxy && userOf(request, proxy);
  if (!user)
    throw new Rejection(401, 'Unauthorized', 'Ask the API server of the cluster, which forwards requests to this one.');
  if (request.method !== 'GET') throw new Rejection(405, 'MethodNotAllowed', 'Metrics can only be read.');
  const { pathname, searchParams } = new URL(request.url ?? '/', 'https://operator');
  if (pathname === ROOT) {
    await checkAccess(world, user, { nonResourceAttributes: { path: pathname, verb: 'get' } });
    return RESOURCES;
  }
  const [, namespace = '', metric = ''] = new RegExp(`^${ROOT}/namespaces/([^/]+)/([^/]+)$`).exec(pathname) ?? [];
  if (metric === '') throw new Rejection(404, 'NotFound', `The external metrics API has no path "${pathname}".`);
  const resourceAttributes = { group: GROUP, version: VERSION, resource: metric, namespace, verb: 'list' };
  await checkAccess(world, user, { resourceAttributes });
  if (!isMetric(metric)) {
    const names = RESOURCES.resources.map(({ name }) => name).join(', ');
    throw new Rejection(404, 'NotFound', `There is no external metric "${metric}". The metrics are: ${names}.`);
  }
  const text = searchParams.get('labelSelector') ?? '';
  const selector = parseSelector(text);
  if (!selector) throw new Rejection(400, 'BadRequest', `Invalid label selector "${text}": use a form such as team=a.`);
  return valuesOf(world, metric, namespace, selector);
}

interface AccessReview extends KubeObject {
  spec: User & Attributes;
  status?: { allowed: boolean; reason?: string };
}

type Attributes = { resourceAttributes: object } | { nonResourceAttributes: object };

/** Asks the API server whether someone may do this. @throws Rejection if not. */
async function checkAccess({ client }: World, user: User, attributes: Attributes): Promise<void> {
  // as the API server itself does: it asks as this group whether the API is there
  if (user.groups.includes('system:masters')) return;
  const review: AccessReview = { metadata: { name: '' }, spec: { ...user, ...attributes } };
  const { status } = await client.create<AccessReview>(SUBJECT_ACCESS_REVIEWS, review);
  if (!status?.allowed) throw new Rejection(403, 'Forbidden', `"${user.user}" may not read this metric.`);
}

function rejectionOf(err: unknown): Rejection {
  if (err instanceof Rejection) return err;
  if (err instanceof ServerProblem) return new Rejection(503, 'ServiceUnavailable', err.message);
  const message = err instanceof KubeError ? err.message : 'The operator failed to answer. Its log has the reason.';
  return new Rejection(500, 'InternalError', message);
}
