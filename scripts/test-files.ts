// Runs test files, each in a process and a folder of its own, so that every run ends and says of each file how it went.

import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec as Spec } from 'node:test/reporters';

export interface TestRun {
  /** Absolute paths. */
  files: readonly string[];
  /** Files at a time; default 2. */
  concurrency?: number;
  /** Milliseconds that one file may take; default 5 minutes. */
  fileMs?: number;
  /** Milliseconds that all may take: files that did not end by then have failed. Default 40 minutes. */
  wholeMs?: number;
  /** Takes whole lines. */
  print: (text: string) => void;
}

export interface TestCounts {
  passed: number;
  failed: number;
  /** `name: reason` */
  skipped: string[];
}

/**
 * A line for a file that passed, all that is known for one that failed. A file whose process does not end by itself
 * (`node:test` waits for ever: a failed test that left a timer or a socket is enough) is ended and has failed. So is
 * whatever a file left running, once the file has ended: the next one is not disturbed by it.
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
  if (limit.aborted) return { passed: 0, failed: 1, skipped: [], report: `✖ ${name}: no time was left for it\n` };
  const started = performance.now();
  const counts: TestCounts = { passed: 0, failed: 0, skipped: [] };
  // a short path, since sockets' addresses are short; as open as /tmp is: some processes run as users of their own
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
  // what still ends may still write
  rmSync(temporary, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });

  const took = `${((performance.now() - started) / 1_000).toFixed(1)} s`;
  const ended = left.length > 0 ? `; left running, now ended: ${left.join(', ')}` : '';
  if (limit.aborted) {
    running.delete(file); // stands for the file's process
    const where = running.size > 0 ? `at: ${[...running].join(', ')}` : 'all its tests did';
    return { ...counts, report: `${report}✖ ${name}: did not end within ${took}, ${where}${ended}\n` };
  }
  if (counts.failed > 0)
    return { ...counts, report: `${report}✖ ${name}: ${counts.failed} failed (${took})${ended}\n` };
  return { ...counts, report: `✔ ${name}: ${counts.passed} passed (${took})${ended}\n` };
}

/** Kills the processes that have a folder in their environment, and gives their command lines, shortened. */
function endAllThatKnow(folder: string): string[] {
  const ended: string[] = [];
  // where there is no /proc, they stay
  const pids = existsSync('/proc') ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : [];
  for (const pid of pids) {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'latin1').includes(folder)) continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim().slice(0, 120);
      process.kill(Number(pid), 'SIGKILL');
      ended.push(command);
    } catch {
      // it has ended, or is somebody else's
    }
  }
  return ended;
}
