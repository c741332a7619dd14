export { YamuxError, type YamuxErrorCode } from './frames.ts';
export * from './session.ts';
export { YamuxStream } from './stream.ts';
