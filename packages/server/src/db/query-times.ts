import type postgres from 'postgres';
import type { Sql } from './connect.ts';

/** The parts of the driver's queries that are needed to time them. */
interface DriverQuery {
  executed: boolean;
  strings: readonly string[];
  resolve(value: unknown): void;
  reject(err: unknown): void;
  handle(): unknown;
}

/**
 * Times every statement of this process, of all pools, until the returned function is called. `observe` gets a statement
 * as its verb and its first table, such as "select workspaces".
 */
export function timeQueries(sql: Sql, observe: (statement: string, seconds: number) => void): () => void {
  // the driver exports no class, and a query that nobody awaits is not sent
  const queries = Object.getPrototypeOf(sql`SELECT 1`) as DriverQuery & postgres.PendingQuery<never>;
  const names = new WeakMap<readonly string[], string>();
  const { handle } = queries;
  queries.handle = function (this: DriverQuery) {
    if (!this.executed) {
      const { resolve, reject, strings } = this;
      const began = performance.now();
      const over = () => {
        let name = names.get(strings);
        if (name === undefined) {
          name = statementName(strings.join(' '));
          names.set(strings, name);
        }
        observe(name, (performance.now() - began) / 1_000);
      };
      this.resolve = (value) => {
        over();
        resolve(value);
      };
      this.reject = (err) => {
        over();
        reject(err);
      };
    }
    return handle.call(this);
  };
  return () => {
    queries.handle = handle;
  };
}

/** "select workspaces" for `SELECT w.* FROM workspaces w …`. The verb alone for statements without a table. */
export function statementName(text: string): string {
  const verb = (/[a-z]+/i.exec(text)?.[0] ?? 'other').toLowerCase();
  const table = /\b(?:from|into|update|table)\s+(?:only\s+)?([a-z_][a-z0-9_]*)/i.exec(text)?.[1];
  return table === undefined ? verb : `${verb} ${table.toLowerCase()}`;
}
