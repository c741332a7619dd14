import { isAppError, type Logger } from '@ropewalk/kit';
import { BoundError } from '@ropewalk/wire/bounds';
import { DrpcError } from '@ropewalk/wire/drpc';
import { describeUnexpected } from '../app/context/unexpected.ts';

interface Described {
  code: number;
  message: string;
}

/** The code that a caller receives for an error, by the error and the code of its AppError. */
export type CodeOf = (err: unknown, code: string) => number;

/** What a caller receives for an error of its call. Texts of the database stay in the log. Without `codeOf`, the code is 0. */
export function describeCallError(log: Logger, codeOf: CodeOf = () => 0): (err: unknown, method: string) => Described {
  return (err, method) => {
    if (err instanceof DrpcError) return { code: err.code, message: err.message };
    if (err instanceof BoundError) return { code: codeOf(err, 'invalid'), message: err.message };
    const { code, message, detail } = describeUnexpected(err, log, { method });
    const text = isAppError(err) || detail === undefined ? message : `${message} ${detail}`;
    return { code: codeOf(err, code), message: text };
  };
}
