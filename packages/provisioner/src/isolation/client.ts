import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { AppError, backoff, type Exit } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { isAlive } from '@ropewalk/kit/process-ref';
import { type Metadata, PrebuiltWorkspaceBuildStage, WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import type { AcquiredJob } from '@ropewalk/wire/proto/provisionerd';
import type { ProcessRef } from '../runner/protocol.ts';
import type { BuildUser, LauncherReply, LauncherRequest } from './protocol.ts';

/** Texts in templates that run programs on this machine. The uid of such a build gets a user name. */
const RUNS_PROGRAMS = ['local-exec', 'data "external"'];

/** How long opened outputs are used. The launcher closes them later. */
const OUTPUTS_MS = 15_000;

/** How long to wait for a launcher that the server starts again, in ms. */
const RESTART_MS = 15_000;
/** The interval of looks at a program whose launcher has died. */
const POLL_MS = 100;

/** A workspace keeps this key when it gets an owner. */
const ownKey = ({ templateId, workspaceId }: Pick<Metadata, 'templateId' | 'workspaceId'>) =>
  `${templateId} workspace ${workspaceId}`;

/** A program that runs under a build's uid, in a separate process group. */
export interface LaunchedProgram {
  process: ProcessRef;
  stdout: Socket;
  stderr: Socket;
  /** Rejects if the launcher dies, when the program has ended: it outlives the launcher, and nobody knows its exit status. */
  exited: Promise<Exit>;
}

/** Connections for a program's stdout and stderr. */
export interface Outputs {
  out: Output;
  err: Output;
  since: number;
  close(): void;
}

interface Output {
  token: string;
  socket: Socket;
}

export interface Program {
  uid: number;
  file: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
}

/** The client of the launcher, for daemons and runners; see protocol.ts. */
export class Launcher {
  readonly socketPath: string;
  /** A folder of the daemon for the sockets that builds connect to. Builds see it, and its path is short. */
  readonly socketsDir: string | undefined;

  constructor(socketPath: string, socketsDir?: string) {
    this.socketPath = socketPath;
    this.socketsDir = socketsDir;
  }

  /**
   * Opens the connections that become the output of a program. The launcher closes them if no program starts within
   * half a minute, and the caller closes them if none will.
   */
  async outputs(): Promise<Outputs> {
    const [out, err] = await Promise.all([this.#stream(), this.#stream()]);
    const close = () => {
      out.socket.destroy();
      err.socket.destroy();
    };
    return { out, err, close, since: performance.now() };
  }

  /**
   * Starts a program, with outputs that were opened before or with new ones.
   * @throws AppError `unavailable` if the program cannot start or the launcher does not answer
   */
  async run(program: Program, opened?: Outputs): Promise<LaunchedProgram> {
    const isFresh = opened && performance.now() - opened.since < OUTPUTS_MS;
    const { out, err, close } = isFresh ? opened : await this.outputs();
    try {
      const replies = await this.#ask({ op: 'run', ...program, out: out.token, err: err.token });
      const first = await replies.next();
      if (!('started' in first)) throw unexpected(first);
      const { started } = first;
      const exited = replies.next().then(
        (reply): Exit => {
          if ('exit' in reply) return reply.exit;
          throw unexpected(reply);
        },
        async () => {
          while (isAlive(started)) await delay(POLL_MS);
          throw new AppError('unavailable', UNKNOWN_EXIT);
        },
      );
      exited.catch(() => {});
      return { process: started, stdout: out.socket, stderr: err.socket, exited };
    } catch (cause) {
      close();
      throw cause;
    }
  }

  /** Starts a process of the uid that lives until `release`. */
  async hold(uid: number): Promise<{ pid: number; release(): void }> {
    const asked = await this.#ask({ op: 'hold', uid });
    const reply = await asked.next();
    if ('started' in reply) return { pid: reply.started.pid, release: () => asked.close() };
    asked.close();
    throw unexpected(reply);
  }

  /**
   * Keeps the launcher running until the signal fires, also after the death of its server. A launcher that dies is kept
   * again when the server has started another one.
   */
  async stay(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const asked = await this.#ask({ op: 'stay' });
        try {
          await abortable(asked.next(), signal);
          // there is no second answer: it rejects when the launcher ends
          await abortable(asked.next(), signal);
        } finally {
          asked.close();
        }
      } catch {
        // the launcher has ended: #connect waits for the next one
        await delay(POLL_MS, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** Signals the process group of a program. Does nothing if the program is gone. */
  async signal(process: ProcessRef, signal: NodeJS.Signals): Promise<void> {
    await this.#one({ op: 'signal', process, signal });
  }

  /** Empties folders with the rights of the uid. */
  async clear(uid: number, dirs: string[]): Promise<void> {
    await this.#one({ op: 'clear', uid, dirs });
  }

  /**
   * Ends the processes of a session's spare uid, if the session has one. If the folder of the session is gone, this
   * also removes the uid's files and frees the uid for another job.
   */
  async release(session: string): Promise<void> {
    await this.#one({ op: 'release', session });
  }

  /**
   * The user that the programs of a job run as. Builds have one uid per workspace owner and template, so that neither
   * another template's code nor another person's processes share it. A workspace that was built for a pool has one for
   * itself, since nobody knows who will own it. Any other job gets a uid that no process has.
   */
  async userOf(job: AcquiredJob, session: string): Promise<BuildUser> {
    const metadata = job.type.case === 'workspaceBuild' ? job.type.value.metadata : undefined;
    const archive = Buffer.from(job.templateSourceArchive);
    const runsPrograms = RUNS_PROGRAMS.some((words) => archive.includes(words));
    const reply = metadata?.workspaceOwnerId
      ? await this.#one({
          op: 'user',
          key: `${metadata.templateId} ${metadata.workspaceOwnerId}`,
          own: {
            key: ownKey(metadata),
            take: metadata.prebuiltWorkspaceBuildStage === PrebuiltWorkspaceBuildStage.CREATE,
          },
          name: runsPrograms ? metadata.workspaceOwner : undefined,
          earlier: runsPrograms
            ? {
                owner: metadata.workspaceOwner,
                workspace: metadata.workspaceName,
                deleted: metadata.workspaceTransition === WorkspaceTransition.DESTROY,
              }
            : undefined,
        })
      : await this.#one({ op: 'spare', session });
    if ('user' in reply) return { ...reply.user, spare: !metadata?.workspaceOwnerId };
    throw unexpected(reply);
  }

  /** Frees the uid that a deleted workspace had for itself. */
  async vacate(workspace: Pick<Metadata, 'templateId' | 'workspaceId'>): Promise<void> {
    await this.#one({ op: 'vacate', key: ownKey(workspace) });
  }

  async #stream(): Promise<Output> {
    const token = crypto.randomUUID();
    const socket = await this.#connect();
    socket.write(`${JSON.stringify({ op: 'stream', token } satisfies LauncherRequest)}\n`);
    // the launcher writes only this one line. The program writes everything after it.
    await new Promise<void>((resolve, reject) => {
      const onClose = () => reject(gone());
      let text = '';
      const onReadable = () => {
        for (let byte = socket.read(1) as Buffer | null; byte; byte = socket.read(1) as Buffer | null) {
          if (byte[0] !== 0x0a) {
            text += byte.toString();
            continue;
          }
          socket.off('readable', onReadable);
          socket.off('close', onClose);
          return text.includes('"ok"') ? resolve() : reject(new AppError('unavailable', text));
        }
      };
      socket.on('readable', onReadable);
      socket.once('close', onClose);
    });
    return { token, socket };
  }

  async #one(request: LauncherRequest): Promise<LauncherReply> {
    return (await this.#ask(request)).next();
  }

  async #ask(request: LauncherRequest): Promise<{ next(): Promise<LauncherReply>; close(): void }> {
    const socket = await this.#connect();
    const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
    socket.write(`${JSON.stringify(request)}\n`);
    return {
      close: () => socket.destroy(),
      async next() {
        const { value, done } = await lines.next();
        if (done) throw gone();
        const reply = JSON.parse(value) as LauncherReply;
        if ('error' in reply) throw new AppError('unavailable', reply.error);
        return reply;
      },
    };
  }

  /** Connects to the launcher, and waits for one that the server starts again after its death. */
  async #connect(): Promise<Socket> {
    const waits = backoff({ baseMs: 20, capMs: 500 });
    const since = performance.now();
    for (;;) {
      try {
        return await this.#dial();
      } catch (cause) {
        if (performance.now() - since > RESTART_MS) {
          const why = (cause as Error).message;
          throw new AppError('unavailable', `The process that starts builds does not answer: ${why}`, { cause });
        }
        await delay(waits.next());
      }
    }
  }

  #dial(): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.socketPath);
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        socket.on('error', () => {});
        resolve(socket);
      });
    });
  }
}

const UNKNOWN_EXIT = 'The process that starts builds has died, so the exit status of the program is unknown.';
const gone = () => new AppError('unavailable', 'The process that starts builds has ended.');
const unexpected = (reply: LauncherReply) => new AppError('internal', `Unexpected answer: ${JSON.stringify(reply)}`);
