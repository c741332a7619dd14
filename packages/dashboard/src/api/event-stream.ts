/** The connection to the server's event stream, which outlives sleep, restarts and lost networks. */
import type { Change, ChangeHello } from '@ropewalk/contract';

/** What happened on the stream. */
export type StreamEvent =
  | { type: 'open'; version: string; resumed: boolean }
  | { type: 'away' }
  | { type: 'change'; change: Change }
  /** Changes may have been missed: everything shown is read again. */
  | { type: 'reset' }
  | { type: 'signed-out' };

export interface EventStream {
  /** Connects immediately instead of waiting for the next attempt, and checks a connection that may have died in sleep. */
  wake(): void;
  close(): void;
}

/** How long a stream may be silent. The server sends a ping every 15 seconds. */
const SILENCE_MS = 40_000;
/** A short interruption is not worth a banner. */
const AWAY_AFTER_MS = 2_000;
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 5_000;
const LOOK_MS = 5_000;

/** Opens the stream and keeps it open. Works in a page and in a worker. */
export function openEventStream(emit: (event: StreamEvent) => void): EventStream {
  let source: EventSource | undefined;
  let lastId = '';
  let isOpen = false;
  let retryMs = FIRST_RETRY_MS;
  let heardAt = 0;
  let awayTimer: ReturnType<typeof setTimeout> | undefined;
  let retryTimer: ReturnType<typeof setTimeout> | undefined;

  const end = () => {
    source?.close();
    source = undefined;
    isOpen = false;
  };
  const open = () => {
    clearTimeout(retryTimer);
    heardAt = Date.now();
    const current = new EventSource(`/api/v2/events?${new URLSearchParams(lastId ? { last_event_id: lastId } : {})}`);
    source = current;
    const on = (name: string, take: (data: string) => void) =>
      current.addEventListener(name, (event) => {
        heardAt = Date.now();
        if (event.lastEventId) lastId = event.lastEventId;
        take(event.data);
      });
    on('hello', (data) => {
      const { version, resumed } = JSON.parse(data) as ChangeHello;
      isOpen = true;
      retryMs = FIRST_RETRY_MS;
      clearTimeout(awayTimer);
      awayTimer = undefined;
      emit({ type: 'open', version, resumed });
    });
    on('ping', () => {});
    on('change', (data) => emit({ type: 'change', change: JSON.parse(data) as Change }));
    on('reset', () => emit({ type: 'reset' }));
    current.onerror = () => {
      if (source !== current) return;
      end();
      awayTimer ??= setTimeout(() => emit({ type: 'away' }), AWAY_AFTER_MS);
      void checkSession();
      retryTimer = setTimeout(open, retryMs * (0.75 + Math.random() / 2));
      retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
    };
  };
  /** An EventSource does not report why it failed: a lost session needs a sign-in, everything else another attempt. */
  const checkSession = async () => {
    const status = await fetch('/api/v2/users/me').then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 401) emit({ type: 'signed-out' });
  };
  const reconnect = () => {
    retryMs = FIRST_RETRY_MS;
    end();
    open();
  };
  const watchdog = setInterval(() => {
    // after sleep the old connection can look open for minutes
    if (source && Date.now() - heardAt > SILENCE_MS) reconnect();
  }, LOOK_MS);
  open();
  return {
    wake() {
      if (!isOpen || Date.now() - heardAt > SILENCE_MS) reconnect();
    },
    close() {
      clearInterval(watchdog);
      clearTimeout(retryTimer);
      clearTimeout(awayTimer);
      end();
    },
  };
}
