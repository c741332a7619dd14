import { ownValue } from '@ropewalk/kit/own-value';

/** An executable that the server offers. */
export interface Executable {
  file: string;
  system: string;
  architecture: string;
  sum: string;
}

const SYSTEMS: Readonly<Record<string, string>> = { linux: 'Linux', darwin: 'macOS', windows: 'Windows' };

/** Reads the server's SHA256SUMS: a line with checksum and file name for each executable. */
export function readSums(text: string): Executable[] {
  return text.split('\n').flatMap((line) => {
    const found = /^([0-9a-f]{64}) [ *](coder-([a-z]+)-([a-z0-9]+)(?:\.exe)?)$/.exec(line.trim());
    if (!found) return [];
    const [, sum, file, system, architecture] = found as unknown as [string, string, string, string, string];
    return [{ file, system: ownValue(SYSTEMS, system) ?? system, architecture, sum }];
  });
}

/** Reads the fingerprint from the certificate of the server's signing key, in groups of four as GnuPG shows it. */
export const readFingerprint = (certificate: string): string =>
  (/^Comment: ([0-9A-F]{40})$/m.exec(certificate)?.[1] ?? '').replaceAll(/.{4}(?=.)/g, '$& ');

/** The commands that install the server's own coder program with a shell. */
export const shellCommand = (server: string): string => `curl -fsSL ${server}/install.sh | sh`;

/** The same for Windows, which has no such shell. */
export const powershellCommand = (server: string, file: string): string =>
  `Invoke-WebRequest ${server}/bin/${file} -OutFile coder.exe`;
