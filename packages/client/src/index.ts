export type { AnswerHeaders, FetchAnswer, OnAnswer } from './answer.ts';
export * from './client.ts';
export { ApiError, apiErrorText, UnreachableError } from './errors.ts';
