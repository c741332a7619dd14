import { readdirSync, readFileSync } from 'node:fs';

export interface Migration {
  version: number;
  name: string;
  text: string;
}

declare global {
  /** Set by the bundler for the single executable, which contains the files. */
  var PLATFORM_MIGRATIONS: Migration[] | undefined;
}

/** Reads the `0001_name.sql` files next to this file, in order. A released file is never edited. */
export function readMigrations(): Migration[] {
  if (globalThis.PLATFORM_MIGRATIONS) return globalThis.PLATFORM_MIGRATIONS;
  const here = new URL('.', import.meta.url);
  return readdirSync(here)
    .filter((file) => /^\d{4}_[a-z0-9_]+\.sql$/.test(file))
    .sort()
    .map((file) => ({
      version: Number(file.slice(0, 4)),
      name: file.slice(5, -4),
      text: readFileSync(new URL(file, here), 'utf8'),
    }));
}

export const migrations = readMigrations();
