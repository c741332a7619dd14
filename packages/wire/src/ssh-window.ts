/** Of one of ssh2's channels, what its windows are made of. Pinned with the version of ssh2. */
interface ChannelInternals {
  incoming: { window: number };
  outgoing: { id: number };
  _client: { _protocol: { channelWindowAdjust(id: number, bytes: number): void } };
}

/**
 * Lets the peer send `more` bytes beyond ssh2's own window of 2 MiB before it hears of us, so that a long way is filled.
 * Told once and not counted here: what ssh2 gives back as it reads keeps it at that. Its own count may then fall below
 * nothing, which it minds only at 0 exactly, where it throws data away: that value is stepped over.
 */
export function widenSshWindow(channel: object, more: number): void {
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
