import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TemplateExample } from '@platform/contract';
import { AppError } from '@platform/kit';
import { parse } from 'yaml';
import { authorize } from '../../authz/authorize.ts';
import { insertFile } from '../../db/queries/files.ts';
import { type Ctx, systemContext } from '../context.ts';
import { writeTar } from '../file/archive.ts';
import { sha256 } from '../token.ts';

declare global {
  /** Set in the single executable: the files of examples/, by their path in it. */
  var PLATFORM_EXAMPLES: Record<string, string> | undefined;
}

/** The files of the starter templates, by path. Each template is a folder in examples/. */
export function exampleFiles(): Record<string, string> {
  if (globalThis.PLATFORM_EXAMPLES) return globalThis.PLATFORM_EXAMPLES;
  const root = join(import.meta.dirname, '../../../../../examples');
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(root.length + 1).replaceAll('\\', '/'), readFileSync(path, 'utf8')];
    }),
  );
}

interface FrontMatter {
  display_name?: string;
  description?: string;
  icon?: string;
  tags?: string[];
}

/** The starter templates by name, as the front matter of their README.md describes them. */
export function listExamples(): TemplateExample[] {
  return Object.entries(exampleFiles())
    .flatMap(([path, text]): TemplateExample[] => {
      const id = path.split('/')[0]!;
      if (path !== `${id}/README.md`) return [];
      const [, head = '', markdown = text] = /^---\n(.*?)\n---\n(.*)$/s.exec(text) ?? [];
      const { display_name = id, description = '', icon = '', tags = [] } = (parse(head) ?? {}) as FrontMatter;
      return [{ id, url: '', name: display_name, description, icon, tags, markdown: markdown.trim() }];
    })
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** Stores the archive of a starter template as an upload of the caller. */
export async function exampleArchive(ctx: Ctx, exampleId: string): Promise<string> {
  const entries = Object.entries(exampleFiles()).flatMap(([path, text]) =>
    path.startsWith(`${exampleId}/`)
      ? [{ path: path.slice(exampleId.length + 1), data: Buffer.from(text), mode: 0o644 }]
      : [],
  );
  if (entries.length === 0) {
    const detail = 'example not found';
    throw new AppError('not_found', 'Example not found.', { validations: [{ field: 'example_id', detail }] });
  }
  const data = await writeTar(entries);
  // the server stores it, so that creating a version from it does not require the permission to upload
  const ownerId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const owner = authorize(systemContext(ctx, 'starter templates'), 'create', { type: 'file', ownerId });
  return (
    await insertFile(ctx.sql, owner, {
      hash: sha256(data).toString('hex'),
      mimetype: 'application/x-tar',
      data,
    })
  ).id;
}
