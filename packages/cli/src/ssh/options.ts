import { AppError } from '@ropewalk/kit/errors';

/** A port or a socket of the workspace, and its destination on this machine. */
export interface RemoteForward {
  remote: number | string;
  local: { host: string; port: number } | { path: string };
}

const FORMS = 'write it as remote_port:local_address:local_port, or /remote/socket:/local/socket';

/** @throws AppError `invalid`. */
export function parseForward(text: string): RemoteForward {
  const sockets = /^(\/[^:]+):(\/[^:]+)$/.exec(text);
  if (sockets) return { remote: sockets[1]!, local: { path: sockets[2]! } };
  const parts = /^(\d{1,5}):(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})$/.exec(text);
  const [remote, port] = [Number(parts?.[1]), Number(parts?.[4])];
  const isPort = (number: number) => number >= 1 && number <= 65_535;
  if (!parts || !isPort(remote) || !isPort(port))
    throw new AppError('invalid', `Invalid --remote-forward ${JSON.stringify(text)}: ${FORMS}.`);
  return { remote, local: { host: parts[2] ?? parts[3]!, port } };
}

/** Reads texts of the form NAME=value. @throws AppError `invalid`. */
export function parseEnv(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=');
      if (at < 1) throw new AppError('invalid', `Invalid --env ${JSON.stringify(text)}: write it as NAME=value.`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}
