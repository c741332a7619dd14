export { ADDRESSES, type ProviderOptions, type RunningProvider, startProvider } from './server.ts';

/** The release of coder/coder whose schema and verdicts this provider implements. */
export const PROVIDER_VERSION = '2.20.0';
