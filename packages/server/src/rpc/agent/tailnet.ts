import type { DrpcHandlers } from '@ropewalk/wire/drpc';
import type { Tailnet } from '@ropewalk/wire/proto/tailnet';

/** The calls that upstream's agents require: a map without relays, and a coordinator without peers. */
export function tailnetApi(): DrpcHandlers<typeof Tailnet> {
  const untilAborted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  return {
    async *streamDERPMaps(_request, { signal }) {
      yield { homeParams: {}, regions: {} };
      await untilAborted(signal);
    },
    async *coordinate(requests, { signal }) {
      const drain = (async () => {
        for await (const request of requests) if (request.disconnect) break;
      })();
      await Promise.race([drain, untilAborted(signal)]);
    },
    refreshResumeToken: () => ({
      token: '',
      refreshIn: { seconds: 3600n, nanos: 0 },
      expiresAt: { seconds: BigInt(Math.floor(Date.now() / 1000) + 86_400), nanos: 0 },
    }),
    postTelemetry: () => ({}),
  };
}
