export * from './drpc-client.ts';
export { DrpcError, MAX_MESSAGE_BYTES } from './drpc-frames.ts';
export * from './drpc-server.ts';
