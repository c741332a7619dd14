import { errorText } from '@ropewalk/kit';
import type { SFTPWrapper } from 'ssh2';
import protocol from 'ssh2/lib/protocol/SFTP.js';

const { STATUS_CODE: STATUS } = protocol;

/** Sends the answer to one request. */
export type Reply = () => void;

/** A failure with its SFTP status code. */
export class SftpError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

function statusOf(err: unknown): number {
  if (err instanceof SftpError) return err.status;
  switch ((err as NodeJS.ErrnoException).code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return STATUS.NO_SUCH_FILE;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return STATUS.PERMISSION_DENIED;
    default:
      return STATUS.FAILURE;
  }
}

/**
 * Works in parallel and answers in the order of the requests: OpenSSH's client stops at the first end-of-file answer,
 * even if data of earlier requests is still to come.
 */
export class OrderedAnswers {
  readonly #sftp: SFTPWrapper;
  #answered = Promise.resolve();
  #over = false;

  constructor(sftp: SFTPWrapper) {
    this.#sftp = sftp;
  }

  /** Whether the client has ended. */
  get over(): boolean {
    return this.#over;
  }

  /** Sends no more answers. */
  stop(): void {
    this.#over = true;
  }

  /** Sends the answer that `work` returns, or the status of its error. Resolves when the answer is sent. */
  reply(id: number, work: () => Promise<Reply>): Promise<void> {
    const before = this.#answered;
    const done = work().catch(
      (err): Reply =>
        () =>
          this.#sftp.status(id, statusOf(err), errorText(err)),
    );
    this.#answered = Promise.all([done, before]).then(([send]) => {
      if (!this.#over) send();
    });
    return this.#answered;
  }

  /** Sends OK after `work`, or the status of its error. */
  confirm(id: number, work: () => Promise<unknown>): Promise<void> {
    return this.reply(id, async () => {
      await work();
      return () => this.#sftp.status(id, STATUS.OK);
    });
  }
}
