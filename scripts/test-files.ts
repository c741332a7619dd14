// Runs test files, each in its own folder, so that every run ends and reports the result of each file. Files that may share
// a process run in one of a few, one after another, the others each in a process of its kind: scripts/test-process.ts.
//
// A file that failed runs once more, alone, after the others. Only the second run then counts. If it passes, the file is
// flaky: a pause of the machine, or a defect that shows only sometimes. docs/flaky-tests.md lists such files. A file that
// is flaky again fails the run, and so do more than MAX_FLAKY flaky files.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import type { FileEvent, FileOrder, ProcessResult } from './test-process.ts';

/** Of the time of a file, in ms. More is often a timer that a test left, which keeps the process. */
const MAX_OUTSIDE_MS = 10_000;

export interface TestRun {
  /** The absolute paths of the files. */
  files: readonly string[];
  /** The number of files to run at the same time. Default 2. */
  concurrency?: number;
  /** Those of the files that run after the others, one by one: they assert times that a busy machine does not reach. */
  alone?: readonly string[];
  /** Those of the files that may run in one process, one after another. Default none. */
  shared?: readonly string[];
  /** The time limit of one file, in ms. Default 5 minutes. */
  fileMs?: number;
  /** How long a file may take to end after its last test, in ms. Default a minute. */
  endMs?: number;
  /** The time limit of the whole run, in ms. Unfinished files then count as failed. Default 40 minutes. */
  wholeMs?: number;
  /** The files that docs/flaky-tests.md lists, relative to the working directory. Default none. */
  listed?: readonly string[];
  /**
   * Where both outputs of each flaky file are kept. Runs that use the same folder count their flaky files together. It is
   * made when the first file is flaky.
   */
  outputs: string;
  /** Prints whole lines. */
  print: (text: string) => void;
}

export interface TestCounts {
  passed: number;
  failed: number;
  /** `name: reason` */
  skipped: string[];
}

export interface TestResult extends TestCounts {
  /** One line for each flaky file, and one for each reason why flaky files fail the run. */
  flaky: string[];
}

/** Maximum number of flaky files in a run. */
export const MAX_FLAKY = 2;
/** Maximum number of files of one process. */
const MAX_FILES = 40;
/** Maximum memory of a process that gets a further file, in bytes: what files left in memory makes the next ones slower. */
const MAX_BYTES = 800 * 1024 ** 2;
/** Maximum number of failed files that run again. More failures than that have one cause, and it is in the code. */
const MAX_REPEATED = 10;

/**
 * Runs the files. Prints one line for a passed file and all details of a failed one. `node:test` waits for ever for a
 * file that leaves a timer or a socket. This ends such a file's process and counts the file as failed. After each file
 * it also ends the processes that the file left, so that they do not disturb the next file.
 */
export async function runTestFiles(options: TestRun): Promise<TestResult> {
  const { files, concurrency = 2, alone = [], shared = [], fileMs = 300_000, wholeMs = 2_400_000 } = options;
  const { endMs = 60_000 } = options;
  const { listed = [], outputs, print } = options;
  const counts: TestResult = { passed: 0, failed: 0, skipped: [], flaky: [] };
  const add = ({ passed, failed, skipped }: TestCounts) => {
    counts.passed += passed;
    counts.failed += failed;
    counts.skipped.push(...skipped);
  };
  const whole = AbortSignal.timeout(wholeMs);
  const runOne = async (file: string, process: TestProcess = { maxFiles: 1 }) => {
    const result = await runFile({ file, endMs }, process, AbortSignal.any([whole, AbortSignal.timeout(fileMs)]));
    print(result.report);
    return result;
  };
  const failures: FileResult[] = [];
  const runAll = async (waiting: string[]) => {
    const process: TestProcess = { maxFiles: MAX_FILES };
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const result = await runOne(file, shared.includes(file) ? process : undefined);
      if (result.failed > 0) failures.push(result);
      else add(result);
    }
    process.running?.disconnect();
  };
  const together = files.filter((file) => !alone.includes(file));
  await Promise.all(Array.from({ length: concurrency }, () => runAll(together)));
  await runAll(files.filter((file) => alone.includes(file)));

  for (const [n, first] of failures.entries()) {
    if (n >= MAX_REPEATED || whole.aborted) {
      add(first);
      continue;
    }
    print(`once more, alone: ${first.name}\n`);
    const second = await runOne(first.file);
    add(second);
    if (second.failed > 0) continue;
    print(second.output);
    const kept = keepOutputs(outputs, first, second);
    counts.flaky.push(
      `flaky: ${first.name} failed, then passed alone. Outputs: ${kept}. Failed tests: ${first.failures.join(', ')}`,
    );
    if (listed.includes(first.name)) {
      counts.failed++;
      counts.flaky.push(`flaky: the run fails: docs/flaky-tests.md lists ${first.name} already`);
    }
  }
  if (counts.flaky.length > 0) {
    const all = readdirSync(outputs).length;
    if (all > MAX_FLAKY) {
      counts.failed++;
      counts.flaky.push(`flaky: the run fails: ${all} files are flaky, and at most ${MAX_FLAKY} may be`);
    }
  }
  return counts;
}

/** The files in the first column of the table in docs/flaky-tests.md. */
export function flakyFiles(document: string): string[] {
  const rows = document.split('\n').filter((line) => line.startsWith('|'));
  return rows.slice(2).map((row) => row.split('|')[1]!.trim().replaceAll('`', ''));
}

/** Writes both outputs of a flaky file to a new folder, and returns its path. */
function keepOutputs(outputs: string, first: FileResult, second: FileResult): string {
  const folder = join(outputs, first.name.replaceAll(/[^\w.-]+/g, '_'));
  ensureDirectorySync(folder);
  writeFileSync(join(folder, 'failed.txt'), first.output);
  writeFileSync(join(folder, 'passed.txt'), second.output);
  return folder;
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;

interface FileResult extends TestCounts {
  /** The absolute path. */
  file: string;
  /** The path relative to the working directory. */
  name: string;
  /** The tests that failed or did not end. */
  failures: string[];
  /** Everything that the file and its tests printed, and the line with the result. */
  output: string;
  /** What is printed: the output of a failed file, only the line with the result of another. */
  report: string;
}

/** A process for files that run one after another. The next file starts one if none is running. */
interface TestProcess {
  maxFiles: number;
  running?: ChildProcess | undefined;
  /** The number of files that it has run. */
  files?: number;
}

/** Runs a file in a process, and ends the process if it is not fit for another file. Prints nothing. */
async function runFile(
  { file, endMs }: { file: string; endMs: number },
  process: TestProcess,
  limit: AbortSignal,
): Promise<FileResult> {
  const name = relative(globalThis.process.cwd(), file);
  const counts: TestCounts & { failures: string[] } = { passed: 0, failed: 0, skipped: [], failures: [] };
  if (limit.aborted) {
    const report = `✖ ${name}: not started: the time of the whole run is over\n`;
    return { file, name, ...counts, failed: 1, output: report, report };
  }
  const started = performance.now();
  // A short path, because paths of sockets must be short. Open to all users like /tmp, because some processes run as
  // others.
  const temporary = mkdtempSync(join(tmpdir(), 't-'));
  chmodSync(temporary, 0o1777);
  const { result, output: printed, unfinished } = await inProcess(process, { file, temporary, endMs }, limit);
  let output = printed + (result?.output ?? '');
  const left = endAllThatKnow(temporary);
  // processes that are still ending may still write
  rmSync(temporary, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });

  const ms = performance.now() - started;
  if (result) {
    // in a process of several files, an earlier one may have left what keeps it
    if (result.keptBy.length > 0 && process.maxFiles === 1) result.failures.push(name);
    Object.assign(counts, { passed: result.passed, skipped: result.skipped, failures: result.failures });
    counts.failed = result.failures.length;
  } else counts.failed = 1;
  const outside = result !== undefined && counts.failed === 0 && ms - result.tested > MAX_OUTSIDE_MS;
  const took = seconds(ms) + (outside ? `, ${seconds(ms - result.tested)} of them outside its tests` : '');
  const kept = result?.keptBy.length ? `; its process was kept by ${result.keptBy.join(', ')}` : '';
  const ended = kept + (left.length > 0 ? `; left running, now ended: ${left.join(', ')}` : '');
  let line = `✔ ${name}: ${counts.passed} passed (${took})${ended}\n`;
  if (!result) {
    counts.failures.push(name, ...unfinished);
    const where = unfinished.length > 0 ? `at: ${unfinished.join(', ')}` : 'all its tests did';
    const how = limit.aborted ? 'did not end within' : 'its process ended after';
    line = `✖ ${name}: ${how} ${took}, ${where}${ended}\n`;
  } else if (counts.failed > 0) line = `✖ ${name}: ${counts.failed} failed (${took})${ended}\n`;
  output += line;
  return { file, name, ...counts, output, report: line.startsWith('✔') ? line : output };
}

interface Outcome {
  /** Undefined if the file did not end in time, or took its process with it. */
  result?: ProcessResult;
  /** What the process printed. */
  output: string;
  /** The tests that began and did not end. */
  unfinished: string[];
}

async function inProcess(process: TestProcess, order: FileOrder, limit: AbortSignal): Promise<Outcome> {
  process.running ??= fork(join(import.meta.dirname, 'test-process.ts'), { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  const child = process.running;
  const outcome: Outcome = { output: '', unfinished: [] };
  const unfinished = new Set<string>();
  const done = new AbortController();
  const ended = AbortSignal.any([limit, done.signal]);
  const prints = (text: Buffer) => {
    outcome.output += text;
  };
  const says = (event: FileEvent) => {
    if ('begins' in event) unfinished.add(event.begins);
    else if ('ends' in event) unfinished.delete(event.ends);
    else {
      outcome.result = event.result;
      done.abort();
    }
  };
  const exits = () => done.abort();
  child.on('message', says).once('exit', exits);
  for (const pipe of [child.stdout!, child.stderr!]) pipe.on('data', prints);
  child.send(order, () => {});
  if (!ended.aborted) await once(ended, 'abort');
  process.files = (process.files ?? 0) + 1;
  const { failures, keptBy, rss } = outcome.result ?? { failures: ['its process'], keptBy: [], rss: 0 };
  const fit = failures.length === 0 && keptBy.length === 0 && rss < MAX_BYTES && process.files < process.maxFiles;
  if (!fit) {
    // a process whose file has ended may have work to do before it exits
    if (outcome.result && child.connected) child.disconnect();
    else child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    process.running = undefined;
    process.files = 0;
  }
  child.off('message', says).off('exit', exits);
  for (const pipe of [child.stdout!, child.stderr!]) pipe.off('data', prints);
  outcome.unfinished = [...unfinished];
  return outcome;
}

/** Kills the processes whose environment contains a folder. Returns their shortened command lines. */
function endAllThatKnow(folder: string): string[] {
  const ended: string[] = [];
  // without /proc the processes cannot be found, and stay
  const pids = existsSync('/proc') ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : [];
  for (const pid of pids) {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'latin1').includes(folder)) continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim().slice(0, 120);
      process.kill(Number(pid), 'SIGKILL');
      ended.push(command);
    } catch {
      // it has ended, or belongs to another user
    }
  }
  return ended;
}
