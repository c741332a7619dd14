import type { AnswerHeaders } from '@ropewalk/client';
import type { BuildInfoResponse } from '@ropewalk/contract';
import { parseVersion, VERSION } from '@ropewalk/kit/version';
import { type Io, note } from './io.ts';

const BUILD_VERSION = 'X-Coder-Build-Version';
const LICENSE_WARNING = 'X-Coder-Entitlements-Warning';
/** The longest wait for the server's upgrade message. */
const ADVICE_MS = 2_000;

/** Shows the warnings in the headers of a server's answers, once per command. */
export interface ServerWarnings {
  /** `ask` requests the server's upgrade message. Without it, the warning has none. */
  inspect(headers: AnswerHeaders, ask?: () => Promise<BuildInfoResponse>): void;
  /** Resolves when every warning is written. */
  written(): Promise<void>;
}

export function serverWarnings(io: Io, flags: { noVersion: boolean; noFeature: boolean }): ServerWarnings {
  const shown = new Set<string>();
  let versionSeen = flags.noVersion;
  let writing: Promise<void> = Promise.resolve();
  return {
    inspect(headers, ask) {
      for (const line of flags.noFeature ? [] : linesOf(headers, LICENSE_WARNING)) {
        if (!shown.has(line)) note(io, line);
        shown.add(line);
      }
      const theirs = headers.get(BUILD_VERSION);
      if (versionSeen || !theirs) return;
      versionSeen = true;
      if (!differ(VERSION, theirs)) return;
      const text = `Warning: this command has version ${VERSION} and the server has version ${theirs}. They may not work together.`;
      if (ask) writing = adviceOf(ask).then((advice) => note(io, advice ? `${text} ${advice}` : text));
      else note(io, text);
    },
    written: () => writing,
  };
}

function linesOf(headers: AnswerHeaders, name: string): string[] {
  const line = headers.get(name);
  return headers.lines?.(name) ?? (line ? [line] : []);
}

/** Whether major or minor versions differ. Development builds, v0.0.0, match every version. */
function differ(ours: string, theirs: string): boolean {
  const [a, b] = [parseVersion(ours)?.version, parseVersion(theirs)?.version];
  if (!a || !b || [a, b].some((version) => version.every((part) => part === 0))) return false;
  return a[0] !== b[0] || a[1] !== b[1];
}

async function adviceOf(ask: () => Promise<BuildInfoResponse>): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, ADVICE_MS, '');
  });
  const advice = ask().then(
    (info) => info.upgrade_message ?? '',
    () => '',
  );
  try {
    return await Promise.race([advice, late]);
  } finally {
    clearTimeout(timer);
  }
}
