import { policyHosts } from '../../app/values/app-address.ts';
import type { ServedProxy } from '../../app/workspace-proxy/health.ts';

export type { ServedProxy };

/** URLs allow characters in hosts that would end a directive, and a proxy chooses its own host. */
const PLAIN_HOST = /^[a-z0-9.:[\]_-]+$/i;

/**
 * What a Content-Security-Policy permits for proxies: connections to measure latency and for terminals, and frames with
 * apps. A proxy with another host than a plain one has no part in it.
 */
export function proxySources(proxies: readonly ServedProxy[]): { connect: string[]; frame: string[] } {
  const connect: string[] = [];
  const frame: string[] = [];
  for (const { url, wildcard_hostname: wildcard } of proxies) {
    const { protocol, host } = new URL(url);
    if (!PLAIN_HOST.test(host)) continue;
    connect.push(`${protocol}//${host}`, `${protocol === 'https:' ? 'wss:' : 'ws:'}//${host}`);
    const hosts = policyHosts(wildcard);
    if (wildcard !== '' && PLAIN_HOST.test(hosts.slice(1))) frame.push(`${protocol}//${hosts}`);
  }
  return { connect, frame };
}
