// A certificate and its key in files that a program renews, such as those of a mounted Secret. The files are read again and again,
// because mounted Secrets change without an event of the file system.
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import type { Certified } from '@ropewalk/kit/certificate';

export interface CertificateFiles {
  cert: string;
  key: string;
}

export interface CertificateWatch {
  /** What the files have at the start. */
  readonly certified: Certified;
  stop(): void;
}

export interface WatchOptions {
  /** How often to read the files, in ms. */
  lookMs: number;
  log: Logger;
  onChange(certified: Certified): void;
}

/** Watches the files. While they are wrong, the last certificate counts. @throws AppError if they are wrong at the start. */
export function watchCertificate(files: CertificateFiles, { lookMs, log, onChange }: WatchOptions): CertificateWatch {
  const certified = read(files);
  let last = certified;
  let problem = '';
  const look = () => {
    try {
      const now = read(files);
      problem = '';
      if (now.cert === last.cert && now.key === last.key) return;
      last = now;
      onChange(now);
    } catch (err) {
      if (errorText(err) !== problem) log.warn('keeping the last certificate', { err: errorText(err) });
      problem = errorText(err);
    }
  };
  const timer = setInterval(look, lookMs).unref();
  return { certified, stop: () => clearInterval(timer) };
}

function read(files: CertificateFiles): Certified {
  try {
    const certified = { cert: readFileSync(files.cert, 'utf8'), key: readFileSync(files.key, 'utf8') };
    // a program may replace one file after the other: does the key belong to the certificate?
    createSecureContext(certified);
    return certified;
  } catch (err) {
    const message = `Cannot use the certificate "${files.cert}" with the key "${files.key}": ${errorText(err)}`;
    throw new AppError('invalid', message, { cause: err });
  }
}
