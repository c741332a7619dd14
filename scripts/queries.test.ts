import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';

// Checks the rules of docs/decisions/0021-data-behind-proof.md that the compiler does not check.

const SERVER = 'packages/server/src/';
/** The folders of SQL statements. `postgres` sets up the bundled database before it has a schema. */
const MAY_HOLD_SQL = [`${SERVER}db/`, `${SERVER}postgres/`];

/** The files that may create proofs without their own check, because they have already verified the facts. */
const MAKERS: Record<string, string[]> = {
  verifiedSignIn: [
    // after a code or a refresh token was verified
    'app/oauth2/tokens.ts',
    'app/sign-in/account.ts',
    'app/sign-in/login.ts',
    'app/sign-in/passcode.ts',
    'app/workspace-app/sign-in.ts',
  ],
  verifiedDaemon: ['app/provisioner/join.ts'],
  connectedAgent: ['app/find/agent.ts'],
  verifiedProxy: ['app/workspace-proxy/credential.ts'],
  // the actor of a token, for which verifiedToken makes a proof. For a restart, the token was verified with the request
  actorOf: [
    'app/context/allowed.ts',
    'app/provisioner/credential.ts',
    'app/workspace-app/grants.ts',
    'app/workspace-app/sign-in.ts',
    'app/workspace/build/restart.ts',
  ],
};
/** The files that may create the system actor. All others call `systemContext`. */
const SAY_SYSTEM = ['app/context/context.ts', 'app/job/module-files.ts', 'start/services.ts'];
const PROOFS = [
  'Allowed',
  'Outranked',
  'SystemTask',
  'VerifiedSignIn',
  'VerifiedToken',
  'VerifiedDaemon',
  'ConnectedAgent',
  'VerifiedProxy',
  'Ownership',
  'Owned',
];
/** Proofs that only `db/queries` creates, because its statements compare the facts. */
const OF_JOBS = ['Ownership', 'Owned'];

const isTest = (file: string) => /\.(test|bench)\.ts$/.test(file) || /\/testing(\/|\.ts)/.test(file);
const sources = globSync(`${SERVER}**/*.ts`)
  .filter((file) => !isTest(file))
  .map((file) => ({ file, text: readFileSync(file, 'utf8') }));
const queries = sources.filter(({ file }) => file.startsWith(`${SERVER}db/queries/`));

/** Finds SQL: tagged templates, texts that start like a statement, and calls of `unsafe`. */
const TAGGED = /(?<![`\w])\w*(?:[sS]ql|[tT]x|[dD]b|[lL]ists)(?:<[^`;]*?>)?`/;
const STATEMENT =
  /['"`]\s*(?:SELECT\s|INSERT INTO\s|DELETE FROM\s|UPDATE \w+ (?:\w+ )?SET\s|LOCK TABLE\s|WITH \w+ AS \()/;
const UNSAFE = /\.unsafe(?:<[^`;()]*>)?\(/;

export const holdsSql = (text: string): boolean => [TAGGED, STATEMENT, UNSAFE].some((pattern) => pattern.test(text));

test('only db contains SQL statements', () => {
  assert.ok(sources.length > 200);
  const found = sources
    .filter(({ file, text }) => !MAY_HOLD_SQL.some((room) => file.startsWith(room)) && holdsSql(text))
    .map(({ file }) => file.slice(SERVER.length));
  assert.deepEqual(found, []);
});

interface Fn {
  name: string;
  exported: boolean;
  /** The text of the parameters, up to the result type. */
  parameters: string;
  text: string;
}

/** Finds the functions at the top level of a formatted file. */
function functionsOf(text: string): Fn[] {
  const starts = [
    ...text.matchAll(/^(export )?(?:async )?(?:function\*? (\w+)|const (\w+) = (?:async )?(?=[(<]|\w+ =>))/gm),
  ];
  return starts.map((start, at) => {
    const end = starts[at + 1]?.index ?? text.length;
    const body = text.slice(start.index, end);
    // a body ends at the first brace without indentation
    const whole = /^[\s\S]*?\n\};?$/m.exec(body)?.[0] ?? body;
    const parameters = /^[\s\S]*?(?:\n?\)(?::[\s\S]*?)? (?:\{\n|=>))/.exec(whole)?.[0] ?? whole;
    return { name: (start[2] ?? start[3])!, exported: start[1] !== undefined, parameters, text: whole };
  });
}

const WRITES = /\bINSERT INTO\b|\bDELETE FROM\b|(?<!FOR |DO |NO KEY )\bUPDATE\s+(?!OF\b|SET\b)\w/;

/** `Proof` and every type in these files that mentions a proof. */
function proofTypes(files: { text: string }[]): string[] {
  const known = [...PROOFS];
  const aliases = files.flatMap(({ text }) =>
    [
      ...text.matchAll(/^(?:export )?type (\w+)(?:<[^=]*>)? =([\s\S]*?);$/gm),
      ...text.matchAll(/^(?:export )?interface (\w+)([\s\S]*?)^\}/gm),
    ].map(([, name, body]) => ({ name: name!, body: body! })),
  );
  for (let more = true; more; ) {
    const found = aliases.filter(({ name, body }) => !known.includes(name) && mentions(body, known));
    known.push(...found.map(({ name }) => name));
    more = found.length > 0;
  }
  return known;
}

const mentions = (text: string, names: string[]) => names.some((name) => new RegExp(`\\b${name}\\b`).test(text));
const calls = (text: string, names: string[]) =>
  names.some((name) => new RegExp(`(?<![.\\w])${name}(?:<[^()]*>)?\\(`).test(text));

/** Exported functions that write, directly or through other functions of their file, without a proof parameter. */
export function unproven(files: { file: string; text: string }[]): string[] {
  const proofs = proofTypes(files);
  return files.flatMap(({ file, text }) => {
    const all = functionsOf(text);
    const writers = all.filter((fn) => WRITES.test(fn.text)).map(({ name }) => name);
    for (let more = true; more; ) {
      const found = all.filter(
        (fn) => !writers.includes(fn.name) && calls(fn.text.slice(fn.parameters.length), writers),
      );
      writers.push(...found.map(({ name }) => name));
      more = found.length > 0;
    }
    return all
      .filter((fn) => fn.exported && writers.includes(fn.name) && !mentions(fn.parameters, proofs))
      .map((fn) => `${basename(file)}: ${fn.name}`);
  });
}

test('every write requires a proof', () => {
  assert.ok(queries.length > 10);
  const functions = queries.flatMap(({ text }) => functionsOf(text));
  assert.ok(functions.filter((fn) => fn.exported && WRITES.test(fn.text)).length > 50);
  assert.deepEqual(unproven(queries), []);
});

test('only the files that verify facts create proofs', () => {
  const wrong: string[] = [];
  const all = proofTypes(queries);
  for (const { file, text } of sources) {
    const path = file.slice(SERVER.length);
    if (path.startsWith('authz/')) continue;
    for (const [maker, places] of Object.entries(MAKERS)) {
      const imports = new RegExp(`^import [^;]*\\b${maker}\\b[^;]* from '\\.`, 'm').test(text);
      if (imports && !places.includes(path)) wrong.push(`${path} uses ${maker}`);
    }
    if (/\bkind: 'system'/.test(text) && !SAY_SYSTEM.includes(path)) wrong.push(`${path} names a system actor`);
    const closed = path.startsWith('db/queries/') ? PROOFS.filter((name) => !OF_JOBS.includes(name)) : all;
    const cast = new RegExp(`\\bas (?:${closed.join('|')})\\b`).exec(text);
    if (cast) wrong.push(`${path}: ${cast[0]}`);
  }
  assert.deepEqual(wrong, []);
});

test('the checks find statements and unproven writes', () => {
  for (const text of [
    'await sql`SELECT 1`',
    'tx<{ id: string }[]>`DELETE FROM a`',
    'otherSql`statement`',
    'ctx.sql<\n    Row[]\n  >`SELECT 1`',
    "const Q = 'SELECT a FROM b';",
    'pool`\n  UPDATE users SET a = 1`',
    'db.unsafe<Row[]>(query)',
  ]) {
    assert.ok(holdsSql(text), text);
  }
  for (const text of ['/** `sql`: a pool. */', 'log.info(`Updated rows`)', "'Select a template'"]) {
    assert.ok(!holdsSql(text), text);
  }
  const file = (text: string) => unproven([{ file: 'a.ts', text }]);
  const write = '{\n  await db`DELETE FROM a WHERE id = 1`;\n}\n';
  assert.deepEqual(file(`export async function remove(db: Db, id: string): Promise<void> ${write}`), ['a.ts: remove']);
  assert.deepEqual(file(`export async function remove(db: Db, a: Allowed<'delete', Row>): Promise<void> ${write}`), []);
  const inner = `async function inner(db: Db, id: string): Promise<void> ${write}`;
  assert.deepEqual(
    file(
      `export async function outer(\n  db: Db,\n  id: string,\n): Promise<void> {\n  await inner(db, id);\n}\n${inner}`,
    ),
    ['a.ts: outer'],
  );
  const alias = "export type Owner = VerifiedSignIn | Allowed<'create', X>;\n";
  assert.deepEqual(file(`${alias}export async function add(db: Db, { id }: Owner): Promise<void> ${write}`), []);
  assert.deepEqual(
    file('export async function lock(db: Db): Promise<void> {\n  await db`SELECT 1 FROM a FOR UPDATE OF a`;\n}\n'),
    [],
  );
});
