/** The region of this browser: what the person chose, and what was measured. */
import type { Region } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { call } from '../api/client.ts';
import { apiQuery } from '../api/query.ts';
import {
  type AppServer,
  appServerOf,
  fastestRegion,
  isPrimary,
  type Latencies,
  type Latency,
  mayUseProxy,
  parseChoice,
  pickRegion,
  regionKey,
  type StoredChoice,
} from './choice.ts';
import { measureLatency } from './measure.ts';

const KEY = 'region';
/** How often a page that is visible measures. */
const MEASURE_MS = 3 * 60_000;
/** Timers can be this early. */
const TIMER_SLACK_MS = 1_000;
/** How often a page asks for the health of regions, where there are several. */
const HEALTH_MS = 60_000;

interface State {
  choice: StoredChoice;
  /** By the key of the region. */
  latencies: Latencies;
  measuring: boolean;
}

let state: State = { choice: readChoice(), latencies: new Map(), measuring: false };
const listeners = new Set<() => void>();

function readChoice(): StoredChoice {
  try {
    return parseChoice(localStorage.getItem(KEY));
  } catch {
    return {};
  }
}

function set(next: Partial<State>): void {
  state = { ...state, ...next };
  for (const listen of listeners) listen();
}

function setChoice(choice: StoredChoice): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(choice));
  } catch {
    // storage is blocked: the choice lasts as long as the page
  }
  set({ choice });
}

/** Follows the choice in other tabs. */
function onStorage({ key, newValue }: StorageEvent): void {
  if (key === KEY) set({ choice: parseChoice(newValue) });
}

function subscribe(listen: () => void): () => void {
  if (listeners.size === 0) addEventListener('storage', onStorage);
  listeners.add(listen);
  return () => {
    listeners.delete(listen);
    if (listeners.size === 0) removeEventListener('storage', onStorage);
  };
}

export const useRegionState = (): State => useSyncExternalStore(subscribe, () => state);

/** Chooses a region by its key. Undefined: the fastest. */
export const chooseRegion = (chosen: string | undefined): void => setChoice({ ...readChoice(), chosen });

const PROXY_WATCHES = [{ kind: 'deployment', id: 'workspace_proxies' }] as const;

/** All proxies with the reasons of their health. The server checks them every minute. */
export const proxiesQuery = apiQuery('GET /workspaceproxies', PROXY_WATCHES);

const regionsQuery = {
  ...apiQuery('GET /regions', PROXY_WATCHES),
  refetchInterval: ({ state: { data } }: { state: { data?: { regions: readonly Region[] } | undefined } }) =>
    data && data.regions.length > 1 ? HEALTH_MS : (false as const),
};

const NONE: readonly Region[] = [];

/** All regions, and the one whose apps open. */
export function useRegions(): { regions: readonly Region[]; region: Region | undefined; missed?: Region } {
  const regions = useQuery(regionsQuery).data?.regions ?? NONE;
  const { choice } = useRegionState();
  return { regions, ...pickRegion(regions, choice) };
}

/** Where apps and ports open. */
export function useAppServer(): AppServer {
  const { regions, region } = useRegions();
  return appServerOf(region, regions, location.protocol);
}

/** The region of terminals. Undefined: the primary one. The server is asked only where it can be another one. */
export async function terminalRegion(): Promise<Region | undefined> {
  const choice = readChoice();
  if (!mayUseProxy(choice)) return undefined;
  const { regions } = await call('GET /regions');
  const { region } = pickRegion(regions, choice);
  return region && !isPrimary(region) ? region : undefined;
}

const isBlocked = (latency: Latency | undefined): latency is { failure: 'blocked' } =>
  latency !== undefined && 'failure' in latency && latency.failure === 'blocked';

/** Measures all healthy regions, and remembers the fastest one. */
export async function measureRegions(regions: readonly Region[], signal: AbortSignal): Promise<void> {
  set({ measuring: true });
  try {
    const found = await Promise.all(
      regions
        .filter(({ healthy }) => healthy)
        .map(async (region): Promise<[string, Latency]> => {
          const before = state.latencies.get(regionKey(region));
          // the policy of a loaded page does not change, and each attempt is reported to the server
          if (isBlocked(before)) return [regionKey(region), before];
          const url = isPrimary(region) ? location.origin : region.path_app_url.replace(/\/+$/, '');
          return [regionKey(region), await measureLatency(url, signal)];
        }),
    );
    const blocked = [...state.latencies].filter(([, latency]) => isBlocked(latency));
    const latencies = new Map([...blocked, ...found]);
    const choice = readChoice();
    const fastest = fastestRegion(regions, latencies, choice.fastest);
    set({ latencies });
    if (fastest !== undefined && fastest !== choice.fastest) setChoice({ ...choice, fastest });
  } catch (err) {
    if (!signal.aborted) throw err;
  } finally {
    if (!signal.aborted) set({ measuring: false });
  }
}

/** Measures now and every few minutes while the page is visible. Returns a function that ends this. */
export function keepMeasuring(regions: readonly Region[]): () => void {
  const end = new AbortController();
  let last = Number.NEGATIVE_INFINITY;
  const measure = () => {
    const now = performance.now();
    if (document.visibilityState !== 'visible' || now - last < MEASURE_MS - TIMER_SLACK_MS) return;
    last = now;
    void measureRegions(regions, end.signal);
  };
  const timer = setInterval(measure, MEASURE_MS);
  document.addEventListener('visibilitychange', measure);
  measure();
  return () => {
    clearInterval(timer);
    document.removeEventListener('visibilitychange', measure);
    end.abort();
    set({ measuring: false });
  };
}
