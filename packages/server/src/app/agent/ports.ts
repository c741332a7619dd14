import type { Readable } from 'node:stream';
import type { WorkspaceAgentListeningPort } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';

const MAX_BYTES = 1024 * 1024;
const MAX_PORTS = 1_000;
const TIMEOUT_MS = 10_000;

/**
 * Reads the answer of the agent's `ports` service to its end. It comes from a workspace, so its content is untrusted.
 * Throws `unavailable` if it is not a list of ports.
 */
export async function readListeningPorts(from: Readable): Promise<WorkspaceAgentListeningPort[]> {
  const timer = setTimeout(() => from.destroy(new Error('no answer')), TIMEOUT_MS);
  try {
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of from as AsyncIterable<Buffer>) {
      size += part.length;
      if (size > MAX_BYTES) throw new Error('too long');
      parts.push(part);
    }
    const { ports } = JSON.parse(Buffer.concat(parts).toString('utf8')) as { ports: unknown };
    return (ports as unknown[]).slice(0, MAX_PORTS).flatMap(checked);
  } catch (cause) {
    throw new AppError('unavailable', 'The agent of this workspace did not report its listening ports.', { cause });
  } finally {
    clearTimeout(timer);
    from.destroy();
  }
}

function checked(value: unknown): WorkspaceAgentListeningPort[] {
  const { port, network, process_name: name } = (value ?? {}) as Record<string, unknown>;
  if (!Number.isInteger(port) || (port as number) < 1 || (port as number) > 65_535) return [];
  const text = (given: unknown) => (typeof given === 'string' ? given.slice(0, 256) : '');
  return [{ port: port as number, network: text(network) || 'tcp', process_name: text(name) }];
}
