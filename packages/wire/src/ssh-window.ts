/** Of one of ssh2's channels, what its windows are made of. Pinned with the version of ssh2. */
interface ChannelInternals {
  incoming: { window: number };
  outgoing: { id: number };
  _client: { _protocol: { channelWindowAdjust(id: number, bytes: number): void } };
}

const OWN_WINDOW = 2 * 1024 * 1024;
/** What a long way is to carry: 160 MB/s. */
const BYTES_PER_MS = 160_000;

/**
 * Lets the peer send more than ssh2's own window of 2 MiB before it hears of us, where the round trip asks for it, but
 * not more than `most` bytes more. A short way does without: what is under way only grows old in memory. Told once and
 * not counted here: what ssh2 gives back as it reads keeps it at that. Its own count may then fall below nothing, which
 * it minds only at 0 exactly, where it throws data away: that value is stepped over.
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
