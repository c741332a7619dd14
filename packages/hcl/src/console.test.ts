import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { copyFile, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { evaluate, object, parseExpression, parseHcl } from './index.ts';

const fixture = (name: string) => new URL(`testing/${name}`, import.meta.url);
const FAILED = '!failed';

/** Returns Terraform's value of each expression. A console prints only its last answer, so all go into one list. */
async function askTerraform(lines: string[]): Promise<string[]> {
  const dir = await mkdtemp(join(tmpdir(), 'hcl-'));
  try {
    await copyFile(fixture('locals.tf'), join(dir, 'locals.tf'));
    await cp(fixture('files'), join(dir, 'files'), { recursive: true });
    await writeFile(join(dir, 'cli.tfrc'), '');
    const env = {
      PATH: process.env['PATH'],
      HOME: dir,
      CHECKPOINT_DISABLE: '1',
      TF_CLI_CONFIG_FILE: join(dir, 'cli.tfrc'),
    };
    const output = await new Promise<string>((resolve, reject) => {
      const child = execFile('terraform', ['console'], { cwd: dir, env, timeout: 30_000 }, (err, out, errOut) =>
        err ? reject(new Error(errOut)) : resolve(out),
      );
      child.stdin!.end(`jsonencode([${lines.join(', ')}])\n`);
    });
    return JSON.parse(JSON.parse(output) as string) as string[];
  } finally {
    await rm(dir, { recursive: true });
  }
}

const paths = readdirSync(fixture('files'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(fixture('.').pathname, join(entry.parentPath, entry.name)));
const files = {
  read: (path: string) => (paths.includes(path) ? readFileSync(fixture(path)) : undefined),
  paths: () => paths,
};

test('expressions have the same value as in Terraform', async () => {
  const text = await readFile(fixture('expressions.txt'), 'utf8');
  const expressions = text.trim().split('\n');
  const lines = expressions.map((expression) => `try(jsonencode(${expression}), "${FAILED}")`);
  const theirs = await askTerraform(lines);
  assert.equal(theirs.length, lines.length, 'one answer for each expression');

  const locals = parseHcl(await readFile(fixture('locals.tf'), 'utf8'), 'locals.tf');
  assert.deepEqual(locals.diagnostics, []);
  const attributes = [...locals.body.blocks[0]!.body.attributes.values()];
  const variables = { local: object(attributes.map((a) => [a.name, evaluate(a.value)] as const)) };
  const scope = { variables, files };
  const differences: string[] = [];
  for (const [i, line] of lines.entries()) {
    const { expr, diagnostics } = parseExpression(line);
    const ours = expr ? evaluate(expr, scope) : `syntax: ${diagnostics[0]?.message}`;
    if (ours !== theirs[i])
      differences.push(`${expressions[i]}\n  Terraform: ${theirs[i]}\n  here:      ${String(ours)}`);
  }
  assert.equal(differences.join('\n'), '', `${differences.length} of ${lines.length} differ`);
});
