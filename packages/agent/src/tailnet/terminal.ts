// Terminals of upstream's clients: the length of a request as 2 bytes, little-endian, the request as JSON, then what the
// service for terminals takes.
import type { Duplex } from 'node:stream';
import { errorText } from '@ropewalk/kit';
import { containerCommand } from '@ropewalk/kit/container-command';
import { readPreamble } from '@ropewalk/wire/tunnel';
import type { Service } from '../services/service.ts';

const LENGTH_BYTES = 2;
const REQUEST_MS = 10_000;
/** Clients of the tailnet have no names here. Knowing the id of a terminal gives access to it, as with upstream's agent. */
const USER = 'tailnet';

interface Request {
  ID?: unknown;
  Height?: unknown;
  Width?: unknown;
  Command?: unknown;
  Container?: unknown;
  ContainerUser?: unknown;
}

/** Serves one terminal until the stream or its program ends. Reports errors in the stream. */
export async function serveTerminal(stream: Duplex, pty: Service): Promise<void> {
  const head = await readPreamble(
    stream,
    (bytes) => (bytes.length < LENGTH_BYTES ? LENGTH_BYTES : LENGTH_BYTES + bytes.readUInt16LE(0)),
    { timeoutMs: REQUEST_MS },
  );
  const refuse = (text: string) => {
    stream.resume();
    stream.end(`\r\n${text}\r\n`);
  };
  try {
    const { ID, Height, Width, ...rest } = JSON.parse(head.toString('utf8', LENGTH_BYTES)) as Request;
    const sides = { ...(Height ? { height: Height } : {}), ...(Width ? { width: Width } : {}) };
    await pty({
      request: { service: 'pty', id: ID, user: USER, command: commandOf(rest), ...sides },
      accept: () => stream,
      refuse,
    });
  } catch (err) {
    refuse(errorText(err));
  }
}

function commandOf({ Command, Container, ContainerUser }: Omit<Request, 'ID' | 'Height' | 'Width'>): unknown {
  if (!Container) return Command ?? '';
  const [container, user, command] = [Container, ContainerUser, Command].map((value) => String(value ?? ''));
  return containerCommand({ container: container!, user: user!, command, tty: true });
}
