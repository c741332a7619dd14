import type { IncomingMessage } from 'node:http';
import {
  type AppAddress,
  climbs,
  hostName,
  isPathAppTarget,
  parseAppHost,
  parseAppPath,
  type Wildcard,
  wildcardLabel,
} from '../../app/values/app-address.ts';
import type { Refusal } from './pages.ts';
import type { AppPlace } from './place.ts';

/** A request for an app: the app's address, and the rest of the request target. */
export interface AppRequest {
  address: AppAddress;
  rest: string;
}

const MAX_HOSTS = 2_000;
/** No host name with its port is longer. Longer ones are not cached. */
const LONGEST_HOST = 260;
const NO_APP: Refusal = {
  status: 404,
  title: 'There is no such app.',
  detail: 'This address serves only workspace apps.',
};
const NO_PATH_APPS: Refusal = {
  status: 404,
  title: 'Path apps are switched off here.',
  detail: 'Open the app at its own host name.',
};

/** Finds the app that a request is for, by its host or its path. */
export class AppLocator {
  readonly #place: AppPlace;
  readonly #hosts = new Map<string, AppAddress | 'api' | 'nothing'>();

  constructor(place: AppPlace) {
    this.#place = place;
  }

  /** Undefined if the request is not for an app. */
  locate(request: IncomingMessage): AppRequest | { refusal: Refusal } | undefined {
    const host = request.headers.host ?? '';
    if (!request.url!.startsWith('/') && request.url !== '*' && !takeOriginForm(request, host)) {
      return { refusal: { status: 400, title: 'The request names two hosts.' } };
    }
    const target = request.url!;
    const { wildcard, disablePathApps } = this.#place;
    const of = wildcard ? this.#ofHost(wildcard, host) : 'api';
    if (of === 'nothing') return { refusal: NO_APP };
    if (of !== 'api') {
      const doubled = request.rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length > 1;
      if (doubled || target === '*') return { refusal: { status: 400, title: 'The request could not be read.' } };
      return { address: of, rest: target };
    }
    if (!target.startsWith('/@') || !isPathAppTarget(target)) return undefined;
    if (disablePathApps) return { refusal: NO_PATH_APPS };
    if (climbs(target)) return { refusal: { status: 400, title: 'The path leads out of the app.' } };
    return parseAppPath(target) ?? { refusal: NO_APP };
  }

  #ofHost(pattern: Wildcard, host: string): AppAddress | 'api' | 'nothing' {
    let found = this.#hosts.get(host);
    if (found === undefined) {
      const ours = hostName(host) === hostName(new URL(this.#place.accessUrl).host);
      if (ours || wildcardLabel(pattern, host) === undefined) found = 'api';
      else found = parseAppHost(pattern, host) ?? 'nothing';
      if (this.#hosts.size >= MAX_HOSTS) this.#hosts.clear();
      if (host.length <= LONGEST_HOST) this.#hosts.set(host, found);
    }
    return found;
  }
}

/** Replaces the URL in a request target by its path. False if it names another host than the header. */
function takeOriginForm(request: IncomingMessage, host: string): boolean {
  const target = request.url!;
  const url = URL.canParse(target) ? new URL(target) : undefined;
  if (url?.host.toLowerCase() !== host.toLowerCase() || !/^https?:$/.test(url.protocol)) return false;
  const path = target.replace(/^[^:]+:\/\/[^/?]*/, '');
  request.url = path.startsWith('/') ? path : `/${path}`;
  return true;
}
