import { AppError } from '@ropewalk/kit';
import { isInstalled, type RunOptions, runProgram, type Surroundings } from './program.ts';
import type { Container, ContainerPort } from './types.ts';

const TIMEOUT_MS = 30_000;
/** The agent's executable is large, and a busy disk slow. */
const COPY_TIMEOUT_MS = 5 * 60_000;
/** The maximum number of containers that are listed. */
const MAX_CONTAINERS = 200;

/** The part of `docker inspect` that is read. */
interface Inspected {
  Id: string;
  Name?: string;
  Created?: string;
  State?: { Status?: string; Running?: boolean };
  Config?: { Image?: string; Labels?: Record<string, string> | null };
  Mounts?: { Source?: string; Destination?: string }[] | null;
  NetworkSettings?: { Ports?: Record<string, { HostIp?: string; HostPort?: string }[] | null> | null };
}

/**
 * Runs Docker's command.
 * @throws AppError `unavailable` with Docker's message
 */
async function docker(args: string[], around: Surroundings, options: RunOptions = {}): Promise<string> {
  if (!isInstalled('docker', around.env)) {
    throw new AppError('unavailable', 'Docker is not installed: the workspace has no "docker" command in its PATH.');
  }
  const { code, stdout, messages } = await runProgram('docker', args, around, { timeoutMs: TIMEOUT_MS, ...options });
  if (code === 0) return stdout;
  throw new AppError('unavailable', `"docker ${args[0]}" failed: ${messages || `exit status ${code}`}`);
}

/** Lists the containers of this machine, running or not. Throws `unavailable`. */
export async function listContainers(around: Surroundings): Promise<Container[]> {
  const ids = (await docker(['ps', '--all', '--quiet', '--no-trunc'], around)).split('\n').filter((id) => id !== '');
  if (ids.length === 0) return [];
  const args = ['inspect', '--type', 'container', ...ids.slice(0, MAX_CONTAINERS)];
  // a container that was removed meanwhile fails the command, but the others are still printed
  const { stdout, messages } = await runProgram('docker', args, around, { timeoutMs: TIMEOUT_MS });
  try {
    return (JSON.parse(stdout) as Inspected[]).map(toContainer);
  } catch (cause) {
    throw new AppError('unavailable', `"docker inspect" failed: ${messages}`, { cause });
  }
}

/** Converts one entry of `docker inspect`. */
export function toContainer(from: Inspected): Container {
  const { Id, Name = '', Created = '', State = {}, Config = {}, Mounts, NetworkSettings } = from;
  return {
    id: Id,
    name: Name.replace(/^\//, ''),
    created_at: Created,
    image: Config.Image ?? '',
    labels: Config.Labels ?? {},
    running: State.Running === true,
    status: State.Status ?? '',
    ports: Object.entries(NetworkSettings?.Ports ?? {}).flatMap(toPorts),
    volumes: Object.fromEntries(
      (Mounts ?? []).flatMap(({ Source = '', Destination = '' }) =>
        Source && Destination ? [[Source, Destination]] : [],
      ),
    ),
  };
}

type Bindings = { HostIp?: string; HostPort?: string }[] | null;

/** The ports behind a key such as `8080/tcp`: one per place where Docker publishes it, or one that it does not publish. */
function toPorts([key, bindings]: [string, Bindings]): ContainerPort[] {
  const [number, network = 'tcp'] = key.split('/');
  const port = Number(number);
  if (!Number.isInteger(port)) return [];
  if (!bindings?.length) return [{ port, network, host_ip: '', host_port: 0 }];
  return bindings.map(({ HostIp = '', HostPort = '' }) => ({
    port,
    network,
    host_ip: HostIp,
    host_port: Number(HostPort) || 0,
  }));
}

/** Runs a program in a container as root and returns its output. Throws `unavailable`. */
export const execAsRoot = (id: string, args: string[], around: Surroundings, signal: AbortSignal): Promise<string> =>
  docker(['exec', '--user', 'root', id, ...args], around, { signal });

/** Copies a file of this machine into a container. Throws `unavailable`. */
export async function copyInto(
  id: string,
  file: string,
  path: string,
  around: Surroundings,
  signal: AbortSignal,
): Promise<void> {
  await docker(['cp', file, `${id}:${path}`], around, { signal, timeoutMs: COPY_TIMEOUT_MS });
}

/** Stops and removes a container. Throws `unavailable`. */
export async function removeContainer(id: string, around: Surroundings): Promise<void> {
  await docker(['rm', '--force', id], around);
}
