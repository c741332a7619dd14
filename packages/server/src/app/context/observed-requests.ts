/**
 * What metrics observe of a request beyond the status of its answer. The parts that answer requests report it here, because
 * they do not know the metrics.
 */
import type { IncomingMessage } from 'node:http';

const oversized = new WeakSet<IncomingMessage>();

/** Marks a request that was rejected because its body has too many bytes. */
export const markOversized = (request: IncomingMessage): void => void oversized.add(request);
export const isOversized = (request: IncomingMessage): boolean => oversized.has(request);

/**
 * How a ping of a WebSocket ended, with upstream's names. `peer_closed`: the other end closed the connection before it
 * answered. `canceled`: this server closed it. `error`: the connection broke.
 */
export type ProbeResult = 'ok' | 'timeout' | 'peer_closed' | 'canceled' | 'error';

export type OnProbe = (result: ProbeResult) => void;

const observers = new WeakMap<IncomingMessage, OnProbe>();

/** Calls `observe` for each ping of the WebSocket that the request asks for. */
export const observeProbes = (request: IncomingMessage, observe: OnProbe): void => void observers.set(request, observe);
export const probeObserver = (request: IncomingMessage): OnProbe | undefined => observers.get(request);
