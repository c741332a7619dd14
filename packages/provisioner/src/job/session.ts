import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { crc32 } from 'node:zlib';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { AppError, ensureDirectorySync, errorText } from '@ropewalk/kit';
import { createFile, replaceFile } from '@ropewalk/kit/files';
import { DEAD, isAlive, isSame, processRef, readRef } from '@ropewalk/kit/process-ref';
import { formatLogNumbers, parseLogNumbers } from '@ropewalk/wire/log-sequence';
import { FinishRequestSchema } from '@ropewalk/wire/proto/platform_provisioner';
import {
  type AcquiredJob,
  AcquiredJobSchema,
  CompletedJobSchema,
  FailedJobSchema,
} from '@ropewalk/wire/proto/provisionerd';
import type { BuildUser } from '../isolation/protocol.ts';
import type { ProcessRef } from '../runner/protocol.ts';
import { unpackArchive } from '../terraform/archive.ts';
import { removeSockets } from '../terraform/run.ts';
import { newestState, STATE_FILE, STATE_FILES, type WholeState } from '../terraform/state-file.ts';
import type { Ending, LogBatch, Verdict } from './job-port.ts';
import type { OwnLine } from './log-shipper.ts';

const PREFIX = 'Session';
/** Data for a probe of the disk, about the size of a small job. */
const PROBE = Buffer.alloc(256 << 10);
const JOURNAL = 'journal.json';
const JOB = 'job.bin';
const VERDICT = 'verdict.bin';
/** The file of the last lines of the log, next to the verdict. */
const REST_OF_LOG = 'rest-of-log.bin';
const STALE_MS = 7 * 24 * 3600_000;

/** The record in a session's directory from which a later daemon continues the job. */
export interface JournalEntry {
  version: 1;
  jobId: string;
  /** A decimal number. `0` with an upstream server, which has no epochs. */
  epoch: string;
  /** The process of the daemon that works on it. */
  owner: ProcessRef;
  /** `start`: nothing has changed yet, and the job can start again. `apply`: terraform works. */
  phase: 'start' | 'apply' | 'verdict';
  /** The number of daemons that died in the phase `start`. */
  deaths?: number;
  run?: {
    id: string;
    runner: ProcessRef;
    stage: string;
    /** The ResourceReplacement messages as [address, paths]. */
    replacements: [string, string[]][];
    /** The number of the daemon's own log lines at that moment. */
    lines?: number;
    /** Those of them that the server may not have. */
    unsent?: OwnLine[];
  };
  verdict?: Verdict['kind'];
  /** The sums of the verdict and of the rest of the log. Absent: by a daemon of version 0.1.0 or earlier. */
  sums?: { verdict: string; rest?: string };
  /** The user that the job's programs run as. Absent: the daemon's own. */
  user?: BuildUser;
  /** The id of the frozen version to build with. Empty or absent: none. */
  frozenId?: string;
  /** The constraint of the template and its modules. Empty or absent: the server does not say. */
  requiredVersion?: string;
  /** Whether the build fetches its modules again instead of using those of the import. */
  fetchModules?: boolean;
}

/** A file's size and checksum. A loss of power can leave a file empty, cut off or filled with zeros. */
const sumOf = (bytes: Uint8Array): string => `${bytes.length}-${crc32(bytes)}`;

/**
 * A session's directory and its journal. Only the daemon can use it, except the folders that the build works in. Files are
 * written in one step and not by the thread pool: a build waits for them, and the steps take longer than the writing. The
 * disk may lose them with the machine's power, so each reader checks them.
 */
export class Session {
  readonly dir: string;
  /** Whether the journal is damaged. Then only the state that Terraform left can be delivered. */
  readonly damaged: boolean;
  /** Empties folders that belong to the job's own user. Set if there is a launcher. */
  clear: ((uid: number, dirs: string[]) => Promise<void>) | undefined;
  /** The folder for the sockets of builds with their own uids. Set if there is a launcher. */
  socketsDir: string | undefined;
  /** Ends the processes that a job with a spare uid left behind. Set if there is a launcher. */
  release: (() => Promise<void>) | undefined;
  #entry: JournalEntry;
  #unpacked: Promise<string[]> | undefined;
  /** Absent in a session of a dead daemon. */
  #job: AcquiredJob | undefined;

  private constructor(dir: string, entry: JournalEntry, { damaged = false } = {}) {
    this.dir = dir;
    this.#entry = entry;
    this.damaged = damaged;
  }

  /** Creates a directory for a job. It also stores the job (mode 0600), so that another process can run it again. */
  static async create(
    workDir: string,
    job: AcquiredJob,
    epoch: bigint,
    known: Pick<JournalEntry, 'frozenId' | 'requiredVersion' | 'fetchModules'> = {},
  ): Promise<Session> {
    const dir = join(workDir, `${PREFIX}${crypto.randomUUID()}`);
    ensureDirectorySync(workDir, { mode: 0o700 });
    const session = new Session(dir, {
      version: 1,
      jobId: job.jobId,
      epoch: epoch.toString(),
      owner: self(),
      phase: 'start',
      ...known,
    });
    try {
      // a build with another uid can enter it but not list it
      mkdirSync(dir, { mode: 0o711 });
      writeFileSync(join(dir, JOB), toBinary(AcquiredJobSchema, job), { mode: 0o600 });
      session.write({});
    } catch (err) {
      await rm(dir, { recursive: true, force: true });
      throw err;
    }
    session.#job = job;
    return session;
  }

  /**
   * Throws if no job can start here, because the folder is not writable or, with `forRoom`, because the disk is full.
   */
  static probe(dir: string, { forRoom }: { forRoom: boolean }): void {
    // several daemons can share a folder
    const path = join(dir, `probe-${crypto.randomUUID()}`);
    try {
      ensureDirectorySync(dir, { mode: 0o700 });
      writeFileSync(path, forRoom ? PROBE : '', { mode: 0o600 });
    } finally {
      rmSync(path, { force: true });
    }
  }

  get entry(): JournalEntry {
    return this.#entry;
  }

  /** Terraform's working directory: the unpacked template. */
  get templateDir(): string {
    return join(this.dir, 'template');
  }

  /** The folder for files that the job's programs write outside the template: saved plans. */
  get outDir(): string {
    return join(this.dir, 'out');
  }

  get statePath(): string {
    return join(this.templateDir, STATE_FILE);
  }

  write(changes: Partial<JournalEntry>): void {
    this.#entry = { ...this.#entry, ...changes };
    replaceFile(join(this.dir, JOURNAL), JSON.stringify(this.#entry));
  }

  /**
   * Unpacks the template into an empty directory, once, because a dead daemon may have left a partly prepared one. Later
   * calls wait for the first. Returns the names of links and devices, which are left out.
   */
  unpack(archive: Uint8Array): Promise<string[]> {
    this.#unpacked ??= this.#unpack(archive);
    return this.#unpacked;
  }

  async #unpack(archive: Uint8Array): Promise<string[]> {
    await this.#clear();
    if (existsSync(this.templateDir))
      await rm(this.templateDir, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    ensureDirectorySync(this.outDir, { mode: 0o700 });
    const skipped = await unpackArchive(archive, this.templateDir);
    // a state in the archive is not the state of this workspace
    for (const name of STATE_FILES) rmSync(join(this.templateDir, name), { recursive: true, force: true });
    // init makes it, and the daemon accepts only files in it that the build owns
    rmSync(join(this.templateDir, '.terraform'), { recursive: true, force: true });
    return skipped;
  }

  /** The job. Undefined if its file is damaged. */
  async job(): Promise<AcquiredJob | undefined> {
    this.#job ??= await readJob(this.dir);
    return this.#job?.jobId === this.#entry.jobId ? this.#job : undefined;
  }

  /** Stores how the job ended until the server has received it. */
  keepEnding({ verdict, rest }: Ending): void {
    const bytes =
      verdict.kind === 'complete' ? toBinary(CompletedJobSchema, verdict.job) : toBinary(FailedJobSchema, verdict.job);
    const { logs, numbers } = rest;
    const log = create(FinishRequestSchema, { logs, logNumbers: formatLogNumbers(numbers) });
    const restBytes = logs.length > 0 ? toBinary(FinishRequestSchema, log) : undefined;
    if (restBytes) replaceFile(join(this.dir, REST_OF_LOG), restBytes);
    replaceFile(join(this.dir, VERDICT), bytes);
    const sums = { verdict: sumOf(bytes), ...(restBytes ? { rest: sumOf(restBytes) } : {}) };
    this.write({ phase: 'verdict', verdict: verdict.kind, sums });
  }

  /**
   * How the job ended, as stored. Undefined if the file is damaged: the entry then says again where the job was before, and
   * the run's files how it ended. The end of the log is left out if only that is damaged.
   */
  async ending(): Promise<Ending | undefined> {
    const { verdict: kind, sums, run } = this.#entry;
    const bytes = await this.#readWhole(VERDICT, sums?.verdict);
    const verdict = bytes && verdictOf(kind, bytes);
    if (verdict) return { verdict, rest: await this.#restOfLog() };
    this.#entry = { ...this.#entry, phase: run ? 'apply' : 'start' };
    return undefined;
  }

  async #restOfLog(): Promise<LogBatch> {
    const { sums } = this.#entry;
    const bytes = sums && !sums.rest ? undefined : await this.#readWhole(REST_OF_LOG, sums?.rest);
    try {
      const kept = fromBinary(FinishRequestSchema, bytes ?? new Uint8Array());
      return { logs: kept.logs, numbers: parseLogNumbers(kept.logNumbers, kept.logs.length) ?? [] };
    } catch {
      return { logs: [], numbers: [] };
    }
  }

  /** A file's bytes. Undefined if it is missing, or has another sum. */
  async #readWhole(name: string, sum: string | undefined): Promise<Uint8Array | undefined> {
    const bytes = await readFile(join(this.dir, name)).catch(unlessMissing);
    return bytes && (sum === undefined || sumOf(bytes) === sum) ? bytes : undefined;
  }

  /** Makes sure that what was stored outlasts a loss of power. */
  async sync(): Promise<void> {
    // the folder last: it has the names of the others
    for (const path of [VERDICT, REST_OF_LOG, JOURNAL, this.statePath, ''].map((name) => resolve(this.dir, name))) {
      const file = await open(path).catch(unlessMissing);
      await file?.sync().finally(() => file.close());
    }
  }

  /**
   * Whether an apply has changed the state, though the entry does not know of a run: a loss of power can bring back an
   * older journal.
   */
  hasUnknownApply(given: WholeState | undefined): boolean {
    const left = newestState(this.templateDir, { user: this.#entry.user?.uid });
    if (this.#entry.phase !== 'start' || !left) return false;
    return !given || left.lineage !== given.lineage || left.serial > given.serial;
  }

  /** The newest complete state of a run, for the server to store. Empty: the server keeps the state that it has. */
  state(known: { given?: WholeState | undefined; read?: WholeState | undefined }): Uint8Array {
    return newestState(this.templateDir, { ...known, user: this.#entry.user?.uid })?.bytes ?? new Uint8Array();
  }

  /** Ignores a failure: the launcher ends the processes before another job gets the uid. */
  async #release(): Promise<void> {
    const { user } = this.#entry;
    if (user && user.spare !== false) await this.release?.().catch(() => {});
  }

  /** Empties folders with the rights of the build's user, because the daemon may not be able to open them. */
  async #clear(): Promise<void> {
    const { user } = this.#entry;
    if (!user || !this.clear) return;
    await this.clear(user.uid, [this.templateDir, this.outDir]);
  }

  async remove(): Promise<void> {
    // processes that still run could fill the folders again
    await this.#release();
    // the daemon owns both folders. Only in folders below them could the build lead it elsewhere with a link
    const removed = [this.templateDir, this.outDir].map(removeFew);
    if (removed.includes(false)) await this.#clear();
    removeSockets(this.dir, this.socketsDir);
    if (!removeFew(this.dir)) await rm(this.dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 250 });
    await this.#release();
  }

  /**
   * Takes over the sessions of dead daemons. If several processes try, exactly one gets each session. It also takes
   * over sessions of this process that it could not finish before (`isLeft`), because the obstacle may be gone.
   */
  static async adoptAll(
    workDir: string,
    onProblem: (dir: string, why: string) => void,
    isLeft: (jobId: string) => boolean,
  ): Promise<Session[]> {
    const adopted: Session[] = [];
    for (const name of await readdir(workDir).catch(() => [])) {
      if (!name.startsWith(PREFIX)) continue;
      const dir = join(workDir, name);
      try {
        const text = await readFile(join(dir, JOURNAL), 'utf8');
        const entry = parseEntry(text);
        const me = self();
        if (!entry) {
          const job = await readJob(dir);
          if (!job) throw new AppError('invalid', 'its journal and the file of its job are damaged');
          // the journal had the name of the owner
          if (!claim(dir, DEAD)) continue;
          const known = { version: 1, jobId: job.jobId, epoch: '0', owner: me, phase: 'apply' } as const;
          adopted.push(new Session(dir, known, { damaged: true }));
          continue;
        }
        if (entry.version !== 1) throw new AppError('invalid', `journal of version ${entry.version}`);
        const mine = isSame(entry.owner, me);
        if (mine ? !isLeft(entry.jobId) : isAlive(entry.owner) || !claim(dir, entry.owner)) continue;
        const session = new Session(dir, { ...entry, owner: me });
        try {
          session.write({});
        } catch (err) {
          // for example, the disk is full. The claim would keep every process from it as long as this one lives.
          if (!mine) rmSync(claimPath(dir, entry.owner), { force: true });
          throw err;
        }
        adopted.push(session);
      } catch (err) {
        // Nobody can continue a session without a readable journal. An old one is removed.
        const age = await stat(dir)
          .then(({ mtimeMs }) => Date.now() - mtimeMs)
          .catch(() => 0);
        if (age > STALE_MS) await rm(dir, { recursive: true, force: true });
        else if ((err as NodeJS.ErrnoException).code !== 'ENOENT') onProblem(dir, errorText(err));
      }
    }
    return adopted;
  }
}

/** Removes a folder with files, links and empty folders, in one step. False if something is left. */
function removeFew(dir: string): boolean {
  try {
    for (const entry of readdirSync(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name);
      if (entry.isDirectory()) rmdirSync(path);
      else unlinkSync(path);
    }
    rmdirSync(dir);
    return true;
  } catch {
    return !existsSync(dir);
  }
}

function self(): ProcessRef {
  return processRef(process.pid) ?? { pid: process.pid, startTime: '' };
}

/** Undefined if the text is damaged. */
function parseEntry(text: string): JournalEntry | undefined {
  try {
    const entry = JSON.parse(text) as Partial<JournalEntry> | null;
    return typeof entry?.version === 'number' ? (entry as JournalEntry) : undefined;
  } catch {
    return undefined;
  }
}

/** The stored job of a session. Undefined if its file is damaged. */
async function readJob(dir: string): Promise<AcquiredJob | undefined> {
  const bytes = await readFile(join(dir, JOB));
  try {
    const job = fromBinary(AcquiredJobSchema, bytes);
    // an empty file is a message without fields
    return job.jobId === '' || job.type.case === undefined ? undefined : job;
  } catch {
    return undefined;
  }
}

/** Undefined if the bytes are damaged. */
function verdictOf(kind: Verdict['kind'] | undefined, bytes: Uint8Array): Verdict | undefined {
  try {
    const verdict: Verdict =
      kind === 'complete'
        ? { kind, job: fromBinary(CompletedJobSchema, bytes) }
        : { kind: 'fail', job: fromBinary(FailedJobSchema, bytes) };
    return verdict.job.jobId === '' ? undefined : verdict;
  } catch {
    return undefined;
  }
}

function unlessMissing(err: unknown): undefined {
  if ((err as NodeJS.ErrnoException).code !== 'ENOENT') throw err;
}

const claimPath = (dir: string, dead: ProcessRef) =>
  join(dir, `claim-${dead.pid}-${dead.startTime.replace(/\W/g, '')}`);

/** Claims a session of a dead owner. The process that creates the file gets the session. */
function claim(dir: string, dead: ProcessRef): boolean {
  const path = claimPath(dir, dead);
  if (createFile(path, JSON.stringify(self()))) return true;
  // The claimant may have died before it wrote the journal.
  const claimant = readRef(path);
  if (!claimant || isAlive(claimant)) return false;
  rmSync(path, { force: true });
  return claim(dir, dead);
}
