export type { WebSocketClose, WebSocketEvents, WebSocketOptions } from './connection.ts';
export { WebSocketConnection } from './connection.ts';
export { WebSocketProtocolError } from './frames.ts';
export * from './handshake.ts';
export { byteStream, WebSocketClosedError } from './stream.ts';
