export * from './capabilities.ts';
export * from './websocket.ts';
export * from './yamux.ts';
