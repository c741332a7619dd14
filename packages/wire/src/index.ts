export * from './capabilities.ts';
export * from './drpc.ts';
export * from './splice.ts';
export * from './tunnel.ts';
export * from './websocket.ts';
export * from './yamux.ts';
