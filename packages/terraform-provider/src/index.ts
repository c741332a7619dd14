export { initScripts, type Platform } from './init-scripts/index.ts';
export { type ProviderOptions, type RunningProvider, startProvider } from './server.ts';
