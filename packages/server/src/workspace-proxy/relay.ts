// The relay of a workspace proxy, for nodes of the tailnet whose home is its region.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { backoff, RECONNECT } from '@ropewalk/kit/retry';
import { DerpRelay } from '@ropewalk/tailnet/derp/relay';
import { framedMessages, frameMessage } from '@ropewalk/wire/framed-messages';
import { MAX_RELAY_MESSAGE, type RelayNews } from '@ropewalk/wire/proxy-link';
import { RELAY_RESTART } from '../app/tailnet/relay-restart.ts';
import { networkOf } from '../app/values/network.ts';
import type { ClientAddress } from '../http/client-address.ts';
import { RelayStrangers, relayStream, relayUpgradeOf } from '../http/relay-streams.ts';
import { KnownPairs } from './known-pairs.ts';
import type { ServerLink } from './link.ts';

/** A server that sends nothing for this long, in ms, is asked again over another stream. It sends a sign of life each second. */
const SILENCE_MS = 10_000;

export interface ProxyRelayParts {
  link: Pick<ServerLink, 'open' | 'up'>;
  clientAddress: ClientAddress;
  clock: Clock;
  log: Logger;
}

export class ProxyRelay {
  readonly #parts: ProxyRelayParts;
  readonly #pairs: KnownPairs;
  readonly #relay: DerpRelay;
  readonly #strangers = new RelayStrangers();
  readonly #closed = new AbortController();
  #running: Promise<void>;

  constructor(parts: ProxyRelayParts) {
    const { clock } = parts;
    this.#parts = parts;
    this.#pairs = new KnownPairs(clock, (key) => this.#relay.classify(key));
    this.#relay = new DerpRelay({ policy: this.#pairs, clock });
    this.#running = this.#keepAsking();
  }

  /** Serves a connection of a node. @throws AppError */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const network = networkOf(this.#parts.clientAddress(request));
    this.#strangers.check(network);
    const upgrade = relayUpgradeOf(request);
    if (!upgrade) throw new AppError('not_found', 'This workspace proxy has no such stream.');
    const stream = relayStream(upgrade, { request, socket, head }, this.#relay);
    if (stream) void this.#relay.accept(stream, this.#strangers.count(network, stream));
  }

  async close(): Promise<void> {
    this.#closed.abort(new AppError('canceled', 'The workspace proxy is shutting down.'));
    this.#relay.close(RELAY_RESTART);
    await this.#running;
  }

  /** Keeps a stream to the server. Never rejects. */
  async #keepAsking(): Promise<void> {
    const { link, clock, log } = this.#parts;
    const { signal } = this.#closed;
    const waits = backoff({ baseMs: 100, ...RECONNECT });
    while (!signal.aborted) {
      try {
        await link.up(signal);
        await this.#ask(() => waits.reset());
      } catch (err) {
        if (!signal.aborted) log.debug('the relay has no stream to the server', { err: errorText(err) });
      }
      await clock.sleep(waits.next(), signal).catch(() => {});
    }
  }

  /** Reports keys to the server, and takes its news until the stream ends. */
  async #ask(onOpen: () => void): Promise<void> {
    const stream = await this.#parts.link.open({ service: 'relay' }, this.#closed.signal);
    onOpen();
    const end = () => stream.destroy(new Error('the server is silent'));
    let silence = setTimeout(end, SILENCE_MS);
    const abort = () => stream.destroy();
    this.#closed.signal.addEventListener('abort', abort, { once: true });
    stream.on('error', () => {});
    const stop = this.#pairs.begin((report) => {
      if (!stream.destroyed) stream.write(frameMessage(Buffer.from(JSON.stringify(report))));
    });
    try {
      for await (const message of framedMessages(stream, MAX_RELAY_MESSAGE)) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MS);
        this.#pairs.receive(JSON.parse(message.toString()) as RelayNews);
      }
    } finally {
      clearTimeout(silence);
      this.#closed.signal.removeEventListener('abort', abort);
      stop();
      stream.destroy();
    }
  }
}
