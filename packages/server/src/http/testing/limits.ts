import type { Response } from '@ropewalk/contract';

/** What tests of limits ask of the answers to many requests. */
interface Answer {
  status: number;
  body: unknown;
}

/** Makes this many requests simultaneously. */
export const times = <T>(count: number, make: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n)));

export const statuses = (answers: readonly Pick<Answer, 'status'>[]): number[] =>
  answers.map(({ status }) => status).sort();

/** The bodies of the rejected requests. */
export const failed = (answers: readonly Answer[]): Response[] =>
  answers.filter(({ status }) => status >= 400).map(({ body }) => body as Response);
