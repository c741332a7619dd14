// Runs test files, each in its own process and folder, so that every run ends and reports the result of each file.

import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec as Spec } from 'node:test/reporters';

export interface TestRun {
  /** The absolute paths of the files. */
  files: readonly string[];
  /** The number of files to run at the same time. Default 2. */
  concurrency?: number;
  /** The time limit of one file, in ms. Default 5 minutes. */
  fileMs?: number;
  /** The time limit of the whole run, in ms. Unfinished files then count as failed. Default 40 minutes. */
  wholeMs?: number;
  /** Prints whole lines. */
  print: (text: string) => void;
}

export interface TestCounts {
  passed: number;
  failed: number;
  /** `name: reason` */
  skipped: string[];
}

/**
 * Runs the files. Prints one line for a passed file and all details of a failed one. `node:test` waits for ever for a
 * file that leaves a timer or a socket. This ends such a file's process and counts the file as failed. After each file
 * it also ends the processes that the file left, so that they do not disturb the next file.
 */
export async function runTestFiles(options: TestRun): Promise<TestCounts> {
  const { files, concurrency = 2, fileMs = 300_000, wholeMs = 2_400_000 } = options;
  const counts: TestCounts = { passed: 0, failed: 0, skipped: [] };
  const whole = AbortSignal.timeout(wholeMs);
  const waiting = [...files];
  const worker = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const result = await runFile(file, AbortSignal.any([whole, AbortSignal.timeout(fileMs)]));
      counts.passed += result.passed;
      counts.failed += result.failed;
      counts.skipped.push(...result.skipped);
      options.print(result.report);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return counts;
}

async function runFile(file: string, limit: AbortSignal): Promise<TestCounts & { report: string }> {
  const name = relative(process.cwd(), file);
  if (limit.aborted)
    return { passed: 0, failed: 1, skipped: [], report: `✖ ${name}: not started: the time of the whole run is over\n` };
  const started = performance.now();
  const counts: TestCounts = { passed: 0, failed: 0, skipped: [] };
  // A short path, because paths of sockets must be short. Open to all users like /tmp, because some processes run as
  // others.
  const temporary = mkdtempSync(join(tmpdir(), 't-'));
  chmodSync(temporary, 0o1777);
  const stream = run({ files: [file], signal: limit, env: { ...process.env, TMPDIR: temporary } });
  stream.on('test:pass', ({ name: test, skip, details }) => {
    if (details.type === 'suite') return;
    if (skip === undefined) counts.passed++;
    else counts.skipped.push(typeof skip === 'string' ? `${test}: ${skip}` : test);
  });
  stream.on('test:fail', ({ details }) => {
    if (details.type !== 'suite') counts.failed++;
  });
  const running = new Set<string>();
  stream.on('test:dequeue', ({ name: test }) => running.add(test));
  stream.on('test:complete', ({ name: test }) => running.delete(test));
  let report = '';
  stream.compose(new Spec()).on('data', (text: string) => {
    report += text;
  });
  await new Promise<void>((resolve) => stream.once('end', resolve));
  const left = endAllThatKnow(temporary);
  // processes that are still ending may still write
  rmSync(temporary, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });

  const took = `${((performance.now() - started) / 1_000).toFixed(1)} s`;
  const ended = left.length > 0 ? `; left running, now ended: ${left.join(', ')}` : '';
  if (limit.aborted) {
    running.delete(file); // the entry of the file's process
    const where = running.size > 0 ? `at: ${[...running].join(', ')}` : 'all its tests did';
    return { ...counts, report: `${report}✖ ${name}: did not end within ${took}, ${where}${ended}\n` };
  }
  if (counts.failed > 0)
    return { ...counts, report: `${report}✖ ${name}: ${counts.failed} failed (${took})${ended}\n` };
  return { ...counts, report: `✔ ${name}: ${counts.passed} passed (${took})${ended}\n` };
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
