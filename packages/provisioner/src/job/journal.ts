import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { AppError, errorText } from '@platform/kit';
import {
  type AcquiredJob,
  AcquiredJobSchema,
  CompletedJobSchema,
  FailedJobSchema,
} from '@platform/wire/proto/provisionerd';
import type { BuildUser } from '../isolation/protocol.ts';
import { isAlive, processRef } from '../runner/process-ref.ts';
import type { ProcessRef } from '../runner/protocol.ts';
import { replaceFile } from '../runner/replace-file.ts';
import { unpackArchive } from '../terraform/archive.ts';
import { removeSockets } from '../terraform/run.ts';
import { newestState, STATE_FILE, STATE_FILES, type WholeState } from '../terraform/state-file.ts';
import type { Verdict } from './port.ts';

const PREFIX = 'Session';
/** About what a small job takes. */
const PROBE = Buffer.alloc(256 << 10);
const STALE_MS = 7 * 24 * 3600_000;

/** What a session's directory says to whoever comes after the daemon that owned it. */
export interface JournalEntry {
  version: 1;
  jobId: string;
  /** Decimal; `0` with a published server, which has no epochs. */
  epoch: string;
  /** The process of the daemon that works on it. */
  owner: ProcessRef;
  /** `start`: nothing was changed yet, the job may be done from the beginning. `apply`: terraform works. */
  phase: 'start' | 'apply' | 'verdict';
  /** How many daemons have died in the phase `start`. */
  deaths?: number;
  run?: {
    id: string;
    runner: ProcessRef;
    stage: string;
    /** ResourceReplacement messages as [address, paths]. */
    replacements: [string, string[]][];
    /** How many lines of the log were the daemon's own by then. */
    lines?: number;
  };
  verdict?: Verdict['kind'];
  /** Who the job's programs run as, where that is not the daemon's own uid. */
  user?: BuildUser;
}

/** A session's directory and its journal; what is in it is for the daemon alone, except what a build works on. */
export class Session {
  readonly dir: string;
  /** Empties a folder of the job's own user; set where there is one. */
  clear: ((uid: number, dir: string) => Promise<void>) | undefined;
  /** Ends what the job left running, where its uid is not the workspace's; set where there is a launcher. */
  release: (() => Promise<void>) | undefined;
  #entry: JournalEntry;

  private constructor(dir: string, entry: JournalEntry) {
    this.dir = dir;
    this.#entry = entry;
  }

  /** Makes a directory for a job. The job itself is kept too (0600), so that another process can do it again. */
  static async create(workDir: string, job: AcquiredJob, epoch: bigint): Promise<Session> {
    const dir = join(workDir, `${PREFIX}${crypto.randomUUID()}`);
    await mkdir(workDir, { recursive: true, mode: 0o700 });
    const session = new Session(dir, {
      version: 1,
      jobId: job.jobId,
      epoch: epoch.toString(),
      owner: self(),
      phase: 'start',
    });
    try {
      // passed through by a build of another uid, and listed by nobody
      await mkdir(dir, { mode: 0o711 });
      await writeFile(join(dir, 'job.bin'), toBinary(AcquiredJobSchema, job), { mode: 0o600 });
      await session.write({});
    } catch (err) {
      await rm(dir, { recursive: true, force: true });
      throw err;
    }
    return session;
  }

  /** Throws what keeps jobs from being begun here: a full disk, a folder that can not be written. */
  static async probe(dir: string): Promise<void> {
    // several daemons share a folder
    const path = join(dir, `probe-${crypto.randomUUID()}`);
    try {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      await writeFile(path, PROBE, { mode: 0o600 });
    } finally {
      await rm(path, { force: true });
    }
  }

  get entry(): JournalEntry {
    return this.#entry;
  }

  /** Terraform's working directory: the unpacked template. */
  get templateDir(): string {
    return join(this.dir, 'template');
  }

  /** What the job's programs write beside the template: saved plans. */
  get outDir(): string {
    return join(this.dir, 'out');
  }

  get statePath(): string {
    return join(this.templateDir, STATE_FILE);
  }

  async write(changes: Partial<JournalEntry>): Promise<void> {
    this.#entry = { ...this.#entry, ...changes };
    await replaceFile(join(this.dir, 'journal.json'), JSON.stringify(this.#entry));
  }

  /** Unpacks the template into an empty directory: a daemon that died may have left a half-prepared one. */
  async unpack(archive: Uint8Array): Promise<void> {
    await this.#clear();
    await rm(this.templateDir, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    await mkdir(this.outDir, { recursive: true, mode: 0o700 });
    await unpackArchive(archive, this.templateDir);
    // a state in the archive is not that of this workspace
    for (const name of STATE_FILES) await rm(join(this.templateDir, name), { recursive: true, force: true });
  }

  async job(): Promise<AcquiredJob> {
    return fromBinary(AcquiredJobSchema, await readFile(join(this.dir, 'job.bin')));
  }

  /** Keeps the verdict until the server has it. */
  async keepVerdict(verdict: Verdict): Promise<void> {
    const bytes =
      verdict.kind === 'complete' ? toBinary(CompletedJobSchema, verdict.job) : toBinary(FailedJobSchema, verdict.job);
    await replaceFile(join(this.dir, 'verdict.bin'), bytes);
    await this.write({ phase: 'verdict', verdict: verdict.kind });
  }

  async verdict(): Promise<Verdict> {
    const bytes = await readFile(join(this.dir, 'verdict.bin'));
    return this.#entry.verdict === 'complete'
      ? { kind: 'complete', job: fromBinary(CompletedJobSchema, bytes) }
      : { kind: 'fail', job: fromBinary(FailedJobSchema, bytes) };
  }

  /** The newest complete state of a run, for the server to keep; empty: it keeps the one it has. */
  async state(known: { given?: WholeState | undefined; read?: WholeState | undefined }): Promise<Uint8Array> {
    return (await newestState(this.templateDir, { ...known, user: this.#entry.user?.uid }))?.bytes ?? new Uint8Array();
  }

  /** Where this fails, the launcher does it before another job gets the uid. */
  async #release(): Promise<void> {
    if (this.#entry.user) await this.release?.().catch(() => {});
  }

  /** What a build made, it alone can remove: folders of its own are closed to the daemon. */
  async #clear(): Promise<void> {
    const { user } = this.#entry;
    if (!user || !this.clear) return;
    for (const dir of [this.templateDir, this.outDir]) if (existsSync(dir)) await this.clear(user.uid, dir);
  }

  async remove(): Promise<void> {
    // what still runs could fill the folders again
    await this.#release();
    await this.#clear();
    await removeSockets(this.dir);
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 250 });
    await this.#release();
  }

  /**
   * Takes over the sessions whose daemon is dead. Of several processes that try, one gets each. So are those of this
   * process that it has given up (`isLeft`): what was in the way may be gone.
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
        const entry = JSON.parse(await readFile(join(dir, 'journal.json'), 'utf8')) as JournalEntry;
        if (entry.version !== 1) throw new AppError('invalid', `journal of version ${entry.version}`);
        const me = self();
        const mine = entry.owner.pid === me.pid && entry.owner.startTime === me.startTime;
        if (mine ? !isLeft(entry.jobId) : isAlive(entry.owner) || !(await claim(dir, entry.owner))) continue;
        const session = new Session(dir, { ...entry, owner: me });
        await session.write({});
        adopted.push(session);
      } catch (err) {
        // Without a readable journal nothing can be told of it; it goes when nobody can miss it any more.
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

function self(): ProcessRef {
  return processRef(process.pid) ?? { pid: process.pid, startTime: '' };
}

/** One claim per dead owner: whoever makes the file has the session. */
async function claim(dir: string, dead: ProcessRef): Promise<boolean> {
  const path = join(dir, `claim-${dead.pid}-${dead.startTime.replace(/\W/g, '')}`);
  try {
    await writeFile(path, JSON.stringify(self()), { flag: 'wx', mode: 0o600 });
    return true;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'EEXIST') throw err;
  }
  // The claimant may have died before it wrote the journal.
  const claimant = JSON.parse(readFileSync(path, 'utf8')) as ProcessRef;
  if (isAlive(claimant)) return false;
  await rm(path, { force: true });
  return readdirSync(dir).length > 0 && claim(dir, dead);
}
