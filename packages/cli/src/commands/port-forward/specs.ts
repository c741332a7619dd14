import { AppError } from '@ropewalk/kit/errors';

/** A port of this machine, and the port of the workspace that it leads to. */
export interface ForwardSpec {
  network: 'tcp' | 'udp';
  /** Empty for the loopback interface, IPv4 and IPv6. */
  host: string;
  /** 0 for any free port. */
  localPort: number;
  remotePort: number;
}

const MAX_PORTS = 1_000;
const FORMS = 'write it as port, local:remote, address:local:remote, or ranges of ports such as 9000-9010:8000-8010';

function range(text: string, least: number, whole: string): number[] {
  const wrong = (why: string) => new AppError('invalid', `Invalid port ${JSON.stringify(whole)}: ${why}.`);
  const parts = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  if (!parts) throw wrong(FORMS);
  const first = Number(parts[1]);
  const last = Number(parts[2] ?? parts[1]);
  if (last < first) throw wrong(`the range ${text} ends before it begins`);
  if (first < least || last > 65_535) throw wrong('ports are 1 to 65535');
  if (last - first >= MAX_PORTS) throw wrong(`a range can have at most ${MAX_PORTS} ports`);
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/**
 * `8080`, `8080:3000`, `127.0.0.1:8080:3000`, `[::1]:8080`, `9000-9002:8000-8002`, and lists of them with commas.
 * @throws AppError `invalid` with the error and the valid forms.
 */
export function parseSpecs(network: 'tcp' | 'udp', texts: readonly string[]): ForwardSpec[] {
  return texts
    .flatMap((text) => text.split(','))
    .map((text) => text.trim())
    .filter((text) => text !== '')
    .flatMap((text) => parseSpec(network, text));
}

function parseSpec(network: 'tcp' | 'udp', text: string): ForwardSpec[] {
  const bracketed = /^\[([^\]]+)\]:(.*)$/.exec(text);
  const parts = (bracketed ? bracketed[2]! : text).split(':');
  let host = bracketed?.[1] ?? '';
  // the first part is an address if it is not a port, or if two ports follow
  if (!bracketed && (parts.length === 3 || (parts.length === 2 && !/^[\d-]+$/.test(parts[0]!)))) host = parts.shift()!;
  const [local = '', remote = local, more] = parts;
  if (more !== undefined) throw new AppError('invalid', `Invalid port ${JSON.stringify(text)}: ${FORMS}.`);
  const here = range(local, remote === local ? 1 : 0, text);
  const there = range(remote, 1, text);
  if (here.length !== there.length) {
    throw new AppError(
      'invalid',
      `Invalid port ${JSON.stringify(text)}: there are ${here.length} local ports and ${there.length} remote ports.`,
    );
  }
  return here.map((localPort, i) => ({ network, host, localPort, remotePort: there[i]! }));
}

/** An address and a port as they are written together. */
export function endpoint(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
