import type { TemplateExample } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { STARTERS } from '@ropewalk/rules/starter-ids';
import { starterFiles, starterOf } from '@ropewalk/rules/starters';
import { parse } from 'yaml';
import { authorize } from '../../authz/authorize.ts';
import { type Ctx, systemContext } from '../context/context.ts';
import { writeTar } from '../evaluate/archive.ts';
import { storeUpload } from '../file/files.ts';
import { sha256 } from '../values/token.ts';

interface FrontMatter {
  display_name?: string;
  description?: string;
  icon?: string;
  tags?: string[];
}

/** The starter templates in their order, as the front matter of their README.md describes them. */
export function listExamples(): TemplateExample[] {
  const files = starterFiles();
  return STARTERS.flatMap((id): TemplateExample[] => {
    const text = files[`${id}/README.md`];
    if (text === undefined) return [];
    const [, head = '', markdown = text] = /^---\n(.*?)\n---\n(.*)$/s.exec(text) ?? [];
    const { display_name = id, description = '', icon = '', tags = [] } = (parse(head) ?? {}) as FrontMatter;
    return [{ id, url: '', name: display_name, description, icon, tags, markdown: markdown.trim() }];
  });
}

/** Stores the archive of a starter template as an upload of the caller. */
export async function exampleArchive(ctx: Ctx, exampleId: string): Promise<string> {
  const starter = starterOf(exampleId);
  if (!starter) {
    const detail = 'example not found';
    throw new AppError('not_found', 'Example not found.', { validations: [{ field: 'example_id', detail }] });
  }
  const files = Object.entries(starter.files).map(([path, text]) => [path, Buffer.from(text)] as const);
  return storeArchive(ctx, 'starter templates', new Map(files));
}

export const archiveOf = (files: ReadonlyMap<string, Uint8Array>): Promise<Uint8Array> =>
  writeTar([...files].map(([path, data]) => ({ path, data, mode: 0o644 })));

/**
 * Stores files that the server makes for the caller, as an upload of the caller. `task` names what makes them. Creating a
 * version from them does not require the permission to upload, but room for it.
 */
export async function storeArchive(ctx: Ctx, task: string, files: ReadonlyMap<string, Uint8Array>): Promise<string> {
  const data = await archiveOf(files);
  const ownerId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const owner = authorize(systemContext(ctx, task), 'create', { type: 'file', ownerId });
  return (await storeUpload(ctx, owner, { hash: sha256(data).toString('hex'), tar: data })).id;
}
