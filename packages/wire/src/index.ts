export * from './capabilities.ts';
export * from './drpc/index.ts';
export * from './splice.ts';
export * from './tunnel.ts';
export * from './websocket/index.ts';
export * from './yamux/index.ts';
