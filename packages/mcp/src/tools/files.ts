import { AppError } from '@ropewalk/kit/errors';
import { Type } from 'typebox';
import { optional, type ToolContext, text, tool } from '../tool.ts';
import { applyEdits, type Edit, unifiedDiff } from '../workspace/edit.ts';
import { withSsh, workspaceArgument } from '../workspace/session.ts';
import { checkPath, type Files, openFiles } from '../workspace/sftp.ts';

const MAX_READ = 1024 * 1024;
const MAX_FILES = 100;
const MAX_EDITS = 1_000;

const file = text('The absolute path of the file in the workspace.');

const withFiles = <T>(ctx: ToolContext, workspace: string, use: (files: Files) => Promise<T>): Promise<T> =>
  withSsh(ctx, workspace, async (client) => use(await openFiles(client)));

export const workspaceLs = tool({
  name: 'coder_workspace_ls',
  description: 'List a directory of a workspace.',
  args: { workspace: workspaceArgument, path: text('The absolute path of the directory in the workspace.') },
  effect: 'read',
  run(ctx, { workspace, path }) {
    checkPath(path);
    return withFiles(ctx, workspace, async (files) => ({ contents: await files.list(path) }));
  },
});

const TYPES: readonly [RegExp, string][] = [
  [/\.json$/i, 'application/json'],
  [/\.(html?)$/i, 'text/html; charset=utf-8'],
  [/\.css$/i, 'text/css; charset=utf-8'],
  [/\.[cm]?js$/i, 'text/javascript; charset=utf-8'],
  [/\.svg$/i, 'image/svg+xml'],
  [/\.png$/i, 'image/png'],
  [/\.jpe?g$/i, 'image/jpeg'],
  [/\.gif$/i, 'image/gif'],
  [/\.webp$/i, 'image/webp'],
  [/\.pdf$/i, 'application/pdf'],
];

/** The media type by the path's ending, or else by the bytes. */
export function mediaType(path: string, bytes: Buffer): string {
  const known = TYPES.find(([ending]) => ending.test(path))?.[1];
  if (known) return known;
  return bytes.includes(0) ? 'application/octet-stream' : 'text/plain; charset=utf-8';
}

export const readFile = tool({
  name: 'coder_workspace_read_file',
  description: 'Read a file of a workspace. The content is base64. At the end of the file it is empty.',
  args: {
    workspace: workspaceArgument,
    path: file,
    offset: optional(Type.Integer({ minimum: 0, description: 'The first byte to read. Default: 0.' })),
    limit: optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_READ,
        description: `The number of bytes. Default and maximum: ${MAX_READ}.`,
      }),
    ),
  },
  effect: 'read',
  run(ctx, { workspace, path, offset = 0, limit }) {
    checkPath(path);
    return withFiles(ctx, workspace, async (files) => {
      const bytes = await files.read(path, offset, limit || MAX_READ);
      return { content: bytes.toString('base64'), mimeType: mediaType(path, bytes) };
    });
  },
});

export const writeFile = tool({
  name: 'coder_workspace_write_file',
  description: 'Write a file of a workspace. It replaces a file with this path, and creates missing directories.',
  args: { workspace: workspaceArgument, path: file, content: text('The content of the file, in base64.') },
  effect: 'destroy',
  run(ctx, { workspace, path, content }) {
    checkPath(path);
    const compact = content.replaceAll(/\s/g, '');
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact) || compact.replace(/=+$/, '').length % 4 === 1)
      throw new AppError('invalid', 'content is not base64. Encode the bytes of the file.');
    const bytes = Buffer.from(compact, 'base64');
    return withFiles(ctx, workspace, async (files) => {
      await files.write(path, bytes);
      return { message: 'The file is written.' };
    });
  },
});

const edits = Type.Array(
  Type.Object(
    {
      search: text('The text to replace. It must occur exactly once, unless replace_all is true.'),
      replace: text('The text that replaces it.'),
      replace_all: optional(Type.Boolean({ description: 'Whether to replace it everywhere. Default: false.' })),
    },
    { additionalProperties: false },
  ),
  { minItems: 1, maxItems: MAX_EDITS, description: 'The changes, in order.' },
);

interface FileEdits {
  path: string;
  edits: readonly Edit[];
}

/** Changes files. No file changes if an edit of any does not fit. */
async function editAll(files: Files, wanted: readonly FileEdits[]): Promise<{ path: string; diff: string }[]> {
  const paths = new Set(wanted.map(({ path }) => path));
  if (paths.size < wanted.length) throw new AppError('invalid', 'files names a path twice. Put its edits together.');
  const changes: { path: string; before: string; after: string }[] = [];
  for (const { path, edits } of wanted) {
    const bytes = await files.readWhole(path);
    const before = bytes.toString('utf8');
    if (!Buffer.from(before, 'utf8').equals(bytes))
      throw new AppError('invalid', `${path} is not UTF-8 text. Write it whole instead.`);
    changes.push({ path, before, after: applyEdits(path, before, edits) });
  }
  for (const { path, before, after } of changes)
    if (before !== after) await files.write(path, Buffer.from(after, 'utf8'));
  return changes.map(({ path, before, after }) => ({ path, diff: unifiedDiff(path, before, after) }));
}

export const editFile = tool({
  name: 'coder_workspace_edit_file',
  description: 'Replace texts in a file of a workspace, and get the difference.',
  args: { workspace: workspaceArgument, path: file, edits },
  effect: 'destroy',
  run(ctx, { workspace, path, edits }) {
    checkPath(path);
    return withFiles(ctx, workspace, async (files) => ({
      message: 'The file is changed.',
      files: await editAll(files, [{ path, edits }]),
    }));
  },
});

export const editFiles = tool({
  name: 'coder_workspace_edit_files',
  description:
    'Replace texts in several files of a workspace, and get the differences. If one edit fails, no file changes.',
  args: {
    workspace: workspaceArgument,
    files: Type.Array(Type.Object({ path: file, edits }, { additionalProperties: false }), {
      minItems: 1,
      maxItems: MAX_FILES,
      description: 'The files with their changes.',
    }),
  },
  effect: 'destroy',
  run(ctx, { workspace, files: wanted }) {
    for (const { path } of wanted) checkPath(path);
    return withFiles(ctx, workspace, async (files) => ({
      message: 'The files are changed.',
      files: await editAll(files, wanted),
    }));
  },
});
