/**
 * Holds the event stream for all tabs of this browser. Over HTTP/1.1 a browser opens six connections to a host at most:
 * with a stream for each tab, the sixth tab would load nothing.
 */
import { type EventStream, openEventStream, type StreamEvent } from './event-stream.ts';

/** What a tab says to the worker. */
export type TabMessage = 'start' | 'stop' | 'wake';

const tabs = new Set<MessagePort>();
let stream: EventStream | undefined;
/** The last state of the connection, for tabs that join later. */
let state: StreamEvent | undefined;

function start(): void {
  stream ??= openEventStream((event) => {
    if (event.type === 'open' || event.type === 'away') state = event;
    for (const tab of tabs) tab.postMessage(event);
  });
}

function stop(): void {
  stream?.close();
  stream = undefined;
  state = undefined;
}

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = ({ ports }) => {
  const tab = ports[0]!;
  tab.onmessage = ({ data }: MessageEvent<TabMessage>) => {
    if (data === 'wake') return stream?.wake();
    if (data === 'stop') {
      tabs.delete(tab);
      if (tabs.size === 0) stop();
      return;
    }
    tabs.add(tab);
    if (state) tab.postMessage(state);
    start();
  };
};
