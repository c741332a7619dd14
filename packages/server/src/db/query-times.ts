import type postgres from 'postgres';
import type { Sql } from './connect.ts';

/** A statement, or a part of one that another statement contains. */
interface Fragment {
  strings: readonly string[];
  args: readonly unknown[];
}

/** The parts of the driver's queries that are needed to watch them. */
interface DriverQuery extends Fragment {
  executed: boolean;
  resolve(value: unknown): void;
  reject(err: unknown): void;
  handle(): unknown;
}

/** Called at the end of a statement, with the error of one that failed. */
export type StatementEnd = (err?: unknown) => void;

/**
 * Calls `begin` for every statement of this process, of all pools, until the returned function is called. It gets a
 * statement as its verb and its first table, such as "select workspaces". It runs in the context of the caller, and may
 * return a function for the end.
 */
export function watchQueries(sql: Sql, begin: (statement: string) => StatementEnd | undefined): () => void {
  // the driver exports no class, and a query that nobody awaits is not sent
  const queries = Object.getPrototypeOf(sql`SELECT 1`) as DriverQuery & postgres.PendingQuery<never>;
  const names = new WeakMap<readonly string[], string>();
  const { handle } = queries;
  queries.handle = function (this: DriverQuery) {
    if (!this.executed) {
      const { resolve, reject, strings } = this;
      let name = names.get(strings);
      if (name === undefined) {
        name = statementName(textOf(this));
        names.set(strings, name);
      }
      const over = begin(name);
      if (over) {
        this.resolve = (value) => {
          over();
          resolve(value);
        };
        this.reject = (err) => {
          over(err);
          reject(err);
        };
      }
    }
    return handle.call(this);
  };
  return () => {
    queries.handle = handle;
  };
}

const isFragment = (value: unknown): value is Fragment =>
  typeof value === 'object' && value !== null && 'strings' in value && 'args' in value;

/** The text with its fragments, without values. */
const textOf = ({ strings, args }: Fragment): string =>
  strings.map((text, at) => `${text}${isFragment(args[at]) ? textOf(args[at]) : ' '}`).join('');

/** "select workspaces" for `SELECT w.* FROM workspaces w …`. The verb alone for statements without a table. */
export function statementName(text: string): string {
  const verb = (/[a-z]+/i.exec(text)?.[0] ?? 'other').toLowerCase();
  const table = /\b(?:from|into|update|table)\s+(?:only\s+)?([a-z_][a-z0-9_]*)/i.exec(text)?.[1];
  return table === undefined ? verb : `${verb} ${table.toLowerCase()}`;
}
