/** The members of an ssh2 channel that define its windows. Bound to the pinned version of ssh2. */
interface ChannelInternals {
  incoming: { window: number };
  outgoing: { id: number };
  _client: { _protocol: { channelWindowAdjust(id: number, bytes: number): void } };
}

const OWN_WINDOW = 2 * 1024 * 1024;
/** The throughput for a long round trip: 160 MB/s. */
const BYTES_PER_MS = 160_000;

/**
 * Lets the peer send more than ssh2's own window of 2 MiB before it gets an update, if the round trip requires it, but
 * at most `most` bytes more. A short round trip needs no more: bytes under way only grow old in memory. The extra
 * window is announced once and not counted here: ssh2's updates keep the window at that size. ssh2's own count may then
 * fall below 0. It checks only for 0 exactly and discards data then, so this function skips that value.
 */
export function widenSshWindow(channel: object, roundTripMs: number, most: number): void {
  const more = Math.min(Math.ceil(roundTripMs * BYTES_PER_MS) - OWN_WINDOW, most);
  if (more <= 0) return;
  const { incoming, outgoing, _client } = channel as ChannelInternals;
  let left = incoming.window;
  Object.defineProperty(incoming, 'window', {
    configurable: true,
    enumerable: true,
    get: () => (left === 0 ? -1 : left),
    set: (value: number) => {
      left = value;
    },
  });
  _client._protocol.channelWindowAdjust(outgoing.id, more);
}
