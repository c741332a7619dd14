import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent, type RequestOptions } from 'node:https';
import { join } from 'node:path';
import { AppError } from '@ropewalk/kit';

/** Where the API server is, and the operator's credentials for it. */
export interface Connection {
  server: string;
  /** The namespace of the operator's pod, or the one of the kubeconfig's context. */
  namespace: string;
  /** TLS settings and headers of a request. Called for each one: tokens rotate. */
  options(): Promise<RequestOptions>;
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Keeps connections: a cold reconcile of many objects would otherwise spend most of its time on TLS. */
const keepAlive = () => new Agent({ keepAlive: true, maxSockets: 64, scheduling: 'fifo' });

/**
 * Connects with the service account of the pod. It reads the token and the certificate authorities for each request, because
 * Kubernetes replaces both: the token every hour, by a link to another folder. @throws AppError `invalid` outside a pod.
 */
export function inClusterConnection(env: NodeJS.ProcessEnv, folder = SERVICE_ACCOUNT): Connection {
  const host = env['KUBERNETES_SERVICE_HOST'];
  const port = env['KUBERNETES_SERVICE_PORT'];
  if (!host || !port)
    throw new AppError('invalid', 'Not in a Kubernetes pod. Set --kubeconfig (KUBECONFIG) to connect from outside.');
  const agent = keepAlive();
  const read = (name: string) => readFileSync(join(folder, name), 'utf8').trim();
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    namespace: read('namespace'),
    async options() {
      return { agent, ca: read('ca.crt'), headers: { Authorization: `Bearer ${read('token')}` } };
    },
  };
}

/** Connects as a kubeconfig file says. `context` empty: its current one. @throws AppError `invalid`. */
export async function kubeconfigConnection(file: string, context = ''): Promise<Connection> {
  const { readKubeconfig } = await import('./kubeconfig.ts');
  const access = readKubeconfig(file, context);
  const agent = access.server.startsWith('http:') ? new HttpAgent({ keepAlive: true }) : keepAlive();
  return { ...access, options: async () => ({ ...(await access.options()), agent }) };
}
