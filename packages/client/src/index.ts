export * from './client.ts';
export { ApiError, apiErrorText, UnreachableError } from './errors.ts';
