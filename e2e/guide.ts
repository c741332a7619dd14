// Walks a guide of docs/guides: runs its blocks of commands and compares their output with the one that the guide shows.
//
// - A block ```sh is a step. A block ```text right after it shows its output, line by line. "…" stands for any text, and
//   lines in between may be left out.
// - `<!-- as: NAME -->` before a block names the person who types it. Default: admin.
// - `<!-- by hand: REASON -->` before a block excludes it: the test does the same in another way.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Step {
  section: string;
  person: string;
  script: string;
  output: string[];
}

export function readSteps(text: string): Step[] {
  const steps: Step[] = [];
  let section = '';
  let mark: string | undefined;
  const parts = /^## (?<heading>.*)$|^<!-- (?<mark>.*) -->$|^```(?<kind>\w*)\n(?<block>[\s\S]*?)^```$/gm;
  for (const { groups } of text.matchAll(parts)) {
    const { heading, kind, block = '' } = groups!;
    if (heading !== undefined) section = heading;
    else if (groups!['mark'] !== undefined) mark = groups!['mark'];
    else if (kind === 'sh') {
      const byHand = mark?.startsWith('by hand');
      const person = /^as: (\w+)$/.exec(mark ?? 'as: admin')?.[1];
      assert.ok(byHand || person, `the guide has an unknown mark: ${mark}`);
      if (!byHand) steps.push({ section, person: person!, script: block, output: [] });
      mark = undefined;
    } else if (kind === 'text') steps.at(-1)!.output = block.split('\n').filter((line) => line.trim() !== '');
  }
  return steps;
}

/** Returns the first line of `expected` that does not follow in `output`. */
export function missingLine(expected: string[], output: string): string | undefined {
  const lines = output.split('\n');
  return expected.find((line) => {
    const pattern = line.trim().split(/\s+/).map(escaped).join('\\s+');
    const at = lines.findIndex((one) => new RegExp(`^\\s*${pattern}\\s*$`).test(one));
    lines.splice(0, at + 1);
    return at < 0;
  });
}

const escaped = (word: string) => word.split('…').map(RegExp.escape).join('.*');

export class Guide {
  private readonly steps: Step[];
  private readonly dir: string;
  private readonly env: NodeJS.ProcessEnv;
  /** What differs between the guide's machines and the test's. */
  readonly replace = new Map<string, string>();
  /** What a person has in the environment. */
  readonly people: Record<string, NodeJS.ProcessEnv> = {};

  constructor(name: string, dir: string, env: NodeJS.ProcessEnv) {
    this.steps = readSteps(readFileSync(join(dirname(import.meta.dirname), 'docs/guides', name), 'utf8'));
    this.dir = dir;
    this.env = env;
  }

  /** The home folder of a person, in which the commands run. */
  home(person: string): string {
    const home = join(this.dir, person);
    mkdirSync(home, { recursive: true });
    return home;
  }

  /** Runs the steps of the next section. The name must be the guide's, so that the test follows its order. */
  async section(name: string): Promise<void> {
    assert.equal(this.steps[0]?.section, name, 'the test does not follow the guide');
    while (this.steps[0]?.section === name) await this.run(this.steps.shift()!);
  }

  /** Fails if a section of the guide was not walked. */
  ends(): void {
    assert.deepEqual(this.steps, []);
  }

  private async run(step: Step): Promise<void> {
    const home = this.home(step.person);
    const replaced = (text: string) => [...this.replace].reduce((all, [from, to]) => all.replaceAll(from, to), text);
    const script = join(home, '.step.sh');
    // variables of a step exist in the next ones, as in one shell
    writeFileSync(
      script,
      `set -eua\n[ ! -e ~/.variables ] || . ~/.variables\n${replaced(step.script)}\nexport -p > ~/.variables\n`,
    );
    const child = spawn('bash', [script], {
      cwd: home,
      env: { ...this.env, HOME: home, ...this.people[step.person] },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 90_000,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (output += data.toString()));
    const code = await new Promise((resolve) => child.once('close', resolve));
    const where = `${step.section}:\n${step.script}${output}`;
    assert.equal(code, 0, where);
    const missing = missingLine(step.output.map(replaced), output);
    assert.equal(missing, undefined, `the output has no line "${missing}", or not there: ${where}`);
  }
}
