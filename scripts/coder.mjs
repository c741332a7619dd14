#!/usr/bin/env node
// Starts the checkout's coder command with the Node.js from npm, whichever Node.js runs this file.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const node = here('../node_modules/.bin/node');
if (!existsSync(node)) {
  console.error('Node.js 26 is not installed in this checkout: run `npm ci` first.');
  process.exit(1);
}
const { status, signal } = spawnSync(node, [here('../packages/cli/src/main.ts'), ...process.argv.slice(2)], {
  stdio: 'inherit',
});
if (signal) process.kill(process.pid, signal);
process.exit(status ?? 1);
