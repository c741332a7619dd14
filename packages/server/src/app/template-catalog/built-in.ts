import { STARTERS } from '@ropewalk/rules/starter-ids';
import { starterFiles } from '@ropewalk/rules/starters';
import { type CatalogItems, noItems } from './folder.ts';
import { type ItemFiles, readBase, readModule } from './items.ts';

/** Starter templates that are whole by themselves: a tour, a template of tasks, and one without a machine. */
const NOT_BASES: ReadonlySet<string> = new Set(['quickstart', 'tasks-docker', 'scratch']);
/** Files of starter templates with an editor, which the builder has as modules. */
const EDITORS: ReadonlySet<string> = new Set(['code-server.tf', 'vscode-web.tf']);

let read: CatalogItems | undefined;

/** The bases and modules of this release: the starter templates without their editors, and examples/modules. */
export function builtIn(): CatalogItems {
  read ??= readExamples();
  return read;
}

function readExamples(): CatalogItems {
  const found = noItems();
  const texts = Object.entries(starterFiles());
  const below = (folder: string): ItemFiles =>
    new Map(
      texts.flatMap(([path, text]) =>
        path.startsWith(folder) ? [[path.slice(folder.length), Buffer.from(text)] as const] : [],
      ),
    );
  for (const id of STARTERS) {
    if (NOT_BASES.has(id)) continue;
    const files = new Map([...below(`${id}/`)].filter(([path]) => !EDITORS.has(path)));
    if (files.size > 0) found.bases.set(id, readBase(id, id, files));
  }
  const modules = texts.flatMap(([path]) => /^modules\/([^/]+)\/README\.md$/.exec(path)?.[1] ?? []).sort();
  for (const id of modules) found.modules.set(id, readModule(`modules/${id}`, id, below(`modules/${id}/`)));
  return found;
}
