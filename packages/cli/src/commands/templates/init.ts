import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ensureDirectorySync } from '@platform/kit';
import { AppError } from '@platform/kit/errors';
import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { choose } from '../../lib/prompt.ts';

/** Texts by path, such as `local/main.tf`, from the executable or from the checkout. */
function examples(): Map<string, string> {
  const bundled = (globalThis as { PLATFORM_EXAMPLES?: Record<string, string> }).PLATFORM_EXAMPLES;
  if (bundled) return new Map(Object.entries(bundled));
  const root = fileURLToPath(new URL('../../../../../examples/', import.meta.url));
  if (!existsSync(root)) throw new AppError('not_found', 'This program contains no example templates.');
  return new Map(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [relative(root, path).split(sep).join('/'), readFileSync(path, 'utf8')]),
  );
}

/** The IDs of the examples, the simplest one first. */
function idsOf(files: Map<string, string>): string[] {
  const ids = [...new Set([...files.keys()].filter((path) => path.includes('/')).map((path) => path.split('/')[0]!))];
  return ids.sort((a, b) => Number(b === 'local') - Number(a === 'local') || (a < b ? -1 : 1));
}

/** The first sentence of prose in the example's README. */
function about(files: Map<string, string>, id: string): string {
  const body = (files.get(`${id}/README.md`) ?? '').replace(/^---\n[\s\S]*?\n---\n/, '');
  const prose = body.split(/\n\s*\n/).find((part) => /^[A-Za-z]/.test(part.trim())) ?? '';
  return /^.*?[.:](?=\s|$)/.exec(prose.replaceAll('\n', ' ').trim())?.[0].replace(/:$/, '.') ?? prose;
}

export default command(
  {
    args: { directory: { optional: true } },
    flags: {
      id: {
        type: 'string',
        description: 'Example to write, by ID. Without this flag, the command lists the examples.',
      },
    },
    examples: [
      { does: 'Choose from the list of examples', run: 'coder templates init' },
      { does: 'Write the example "docker" to ./docker', run: 'coder templates init --id docker' },
    ],
  },
  async (ctx, { args, flags }) => {
    const files = examples();
    const ids = idsOf(files);
    let { id } = flags;
    if (id !== '' && !ids.includes(id)) {
      throw new AppError('not_found', `Unknown example ${JSON.stringify(id)}. Available: ${ids.join(', ')}.`);
    }
    if (id === '' && !ctx.interactive) {
      // without a terminal the command cannot ask, so that it prints the list
      const width = Math.max(...ids.map((one) => one.length)) + 2;
      for (const one of ids) print(ctx.io, `${one.padEnd(width)}${about(files, one)}`.trimEnd());
      if (args.directory === undefined) {
        id = ids[0]!;
        print(ctx.io, '');
      } else throw new AppError('invalid', 'Choose an example with --id.');
    }
    if (id === '') {
      const options = ids.map((one) => ({ value: one, label: `${one}: ${about(files, one)}` }));
      id = await choose(ctx, 'Example', options, 'choose one with --id.');
    }
    const directory = resolve(args.directory ?? id);
    if (existsSync(directory) && readdirSync(directory).length > 0) {
      throw new AppError('conflict', `The directory ${directory} is not empty. Choose another one.`);
    }
    for (const [path, text] of files) {
      if (!path.startsWith(`${id}/`)) continue;
      const target = join(directory, path.slice(id.length + 1));
      ensureDirectorySync(dirname(target));
      writeFileSync(target, text);
    }
    const shown = relative(process.cwd(), directory) || '.';
    printDone(ctx, `The example ${id} is now in ${directory}.`);
    print(
      ctx.io,
      `Create a template from it with: coder templates push ${id} -d ${shown.startsWith('..') ? directory : shown}`,
    );
  },
);
