// The files of the starter templates, for the server and the command.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { currentStarterId, STARTERS } from './starter-ids.ts';

declare global {
  /** Set in the single executable: the files of examples/, by their path in it. */
  var PLATFORM_EXAMPLES: Record<string, string> | undefined;
}

/** The texts of the starter templates by path, such as `local/main.tf`. Empty if this installation has none. */
export function starterFiles(): Record<string, string> {
  if (globalThis.PLATFORM_EXAMPLES) return globalThis.PLATFORM_EXAMPLES;
  const root = join(import.meta.dirname, '../../../examples');
  if (!existsSync(root)) return {};
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(root.length + 1).replaceAll('\\', '/'), readFileSync(path, 'utf8')];
    }),
  );
}

/** The files of a starter template by their path in it, or undefined if there is none. Accepts ids of earlier releases. */
export function starterOf(id: string): { id: string; files: Record<string, string> } | undefined {
  const current = currentStarterId(id);
  if (!STARTERS.includes(current)) return undefined;
  const files = Object.entries(starterFiles()).flatMap(([path, text]) =>
    path.startsWith(`${current}/`) ? [[path.slice(current.length + 1), text] as const] : [],
  );
  return files.length > 0 ? { id: current, files: Object.fromEntries(files) } : undefined;
}
