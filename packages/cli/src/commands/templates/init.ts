import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { ensureDirectorySync } from '@ropewalk/kit';
import { AppError } from '@ropewalk/kit/errors';
import { STARTERS } from '@ropewalk/rules/starter-ids';
import { starterFiles, starterOf } from '@ropewalk/rules/starters';
import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { choose } from '../../lib/prompt.ts';

/** The first sentence of prose in the example's README. */
function about(files: Record<string, string>, id: string): string {
  const body = (files[`${id}/README.md`] ?? '').replace(/^---\n[\s\S]*?\n---\n/, '');
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
    const files = starterFiles();
    const ids = STARTERS.filter((one) => files[`${one}/README.md`] !== undefined);
    if (ids.length === 0) throw new AppError('not_found', 'This program contains no example templates.');
    let { id } = flags;
    if (id !== '' && !starterOf(id)) {
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
    const starter = starterOf(id)!;
    // an id of an earlier release stays the name of the folder, as scripts expect
    const directory = resolve(args.directory ?? id);
    if (existsSync(directory) && readdirSync(directory).length > 0) {
      throw new AppError('conflict', `The directory ${directory} is not empty. Choose another one.`);
    }
    for (const [path, text] of Object.entries(starter.files)) {
      const target = join(directory, path);
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
