import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { test } from 'node:test';

/** The packages that each package may import; see docs/decisions. */
const MAY: Record<string, string[]> = {
  contract: [],
  wire: [],
  tailnet: ['kit', 'wire'],
  hcl: ['kit', 'rules'],
  kit: [],
  rules: ['kit'],
  client: ['contract', 'kit', 'tailnet', 'wire'],
  mcp: ['client', 'contract', 'kit'],
  dashboard: ['client', 'contract', 'kit', 'rules'],
  server: ['contract', 'wire', 'tailnet', 'hcl', 'kit', 'rules', 'mcp'],
  'terraform-provider': ['wire', 'kit', 'rules'],
  provisioner: ['terraform-provider', 'wire', 'hcl', 'kit', 'rules'],
  agent: ['client', 'tailnet', 'wire', 'kit'],
  operator: ['client', 'contract', 'kit', 'rules', 'wire'],
  cli: ['client', 'contract', 'kit', 'rules', 'mcp'],
  testkit: [
    'contract',
    'wire',
    'tailnet',
    'hcl',
    'kit',
    'rules',
    'client',
    'server',
    'terraform-provider',
    'provisioner',
    'agent',
    'cli',
  ],
};
/** The commands that start the other programs with lazy imports. */
const DAEMON_ROOM = 'packages/cli/src/commands/daemons/';
/**
 * Folders of the server. Each may import the ones on its right in `http → cluster → rpc, background → metrics → app → authz, db`.
 */
const ROOMS: Record<string, string[]> = {
  http: ['http', 'cluster', 'rpc', 'app', 'authz', 'db', 'config'],
  cluster: ['cluster', 'rpc', 'app', 'authz', 'db', 'config'],
  rpc: ['rpc', 'metrics', 'app', 'authz', 'db', 'config'],
  background: ['background', 'app', 'authz', 'db', 'config'],
  'builtin-daemons': ['builtin-daemons', 'config', 'postgres'],
  metrics: ['metrics', 'app', 'db', 'config'],
  profiles: ['profiles', 'config'],
  tracing: ['tracing', 'metrics', 'app', 'db', 'config'],
  app: ['app', 'authz', 'db', 'config'],
  authz: ['authz'],
  db: ['db'],
  config: ['config'],
  postgres: ['postgres', 'db'],
  // another process, which loads the pure rules only: see workspace-proxy/loads.test.ts
  'workspace-proxy': ['workspace-proxy', 'http', 'app', 'config'],
};
/**
 * The rules of the server, from below. A folder imports only from floors below its own, types included, so that one can
 * say which noun stands above which; see docs/decisions/0012-import-directions.md.
 */
const FLOORS: readonly string[][] = [
  ['evaluate', 'markdown', 'outbound', 'schedule', 'template-catalog', 'values'],
  ['threads'],
  ['context'],
  ['audit-entries', 'find', 'lists', 'owner-consent'],
  ['file', 'follow', 'insights', 'parameters', 'quota', 'tailnet'],
  ['notification'],
  ['oauth2', 'user'],
  ['audit', 'group', 'organization'],
  ['sign-in'],
  ['external-auth', 'scim'],
  ['agent'],
  ['job', 'workspace-app'],
  ['provisioner', 'template', 'workspace', 'workspace-proxy'],
  ['deployment', 'prebuild', 'task', 'template-builder'],
];
const floorOf = (folder: string | undefined): number => FLOORS.findIndex((floor) => floor.includes(folder ?? ''));

/** Folders from which a folder may also import types, because writes require proofs and the policy reads rows. */
const TYPES: Record<string, string[]> = { db: ['authz'], authz: ['db'] };

const IMPORT =
  /(?:^|\n)\s*(?:import|export)(\s+type)?[^;']*?from\s+'([^']+)'|import\('([^']+)'\)|(?:^|\n)@?import ['"]([^'"]+)['"]/g;

interface Import {
  file: string;
  target: string;
  typeOnly: boolean;
  lazy: boolean;
}

function importsOf(file: string, text: string): Import[] {
  return [...text.matchAll(IMPORT)].map(([, type, from, lazy, effect]) => ({
    file,
    target: (from ?? lazy ?? effect)!,
    typeOnly: type !== undefined,
    lazy: lazy !== undefined,
  }));
}

/** The circles of files that need each other to be understood: imports of types and lazy imports count, too. */
export function circles(imports: readonly Import[]): string[] {
  const graph = new Map<string, string[]>();
  for (const { file, target } of imports) {
    if (!target.startsWith('.')) continue;
    graph.set(file, [...(graph.get(file) ?? []), join(file, '..', target)]);
  }
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, trail: readonly string[]): void => {
    if (trail.includes(file)) found.push([...trail.slice(trail.indexOf(file)), file].join(' → '));
    if (done.has(file) || trail.includes(file)) return;
    for (const target of graph.get(file) ?? []) visit(target, [...trail, file]);
    done.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
  return found;
}

/** The rule that an import breaks, or undefined. */
export function breach({ file, target, typeOnly }: Import): string | undefined {
  const [, from, , room, folder] = file.split('/') as [string, string, string, string, string?];
  const isTest = /\.(test|bench)\.ts$/.test(file) || file.includes('/testing/');
  const ours = /^@ropewalk\/([^/]+)/.exec(target)?.[1];
  if (ours !== undefined && ours !== from) {
    if (ours === 'testkit') return isTest ? undefined : `${file} imports the testkit outside a test`;
    if (isTest || file.startsWith(DAEMON_ROOM)) return undefined;
    return MAY[from]?.includes(ours) ? undefined : `${from} may not import ${ours} (${file})`;
  }
  if (!target.startsWith('.')) return undefined;
  const path = relative(process.cwd(), resolve(file, '..', target));
  if (!path.startsWith(`packages/${from}/`)) return `${file} reaches into another package: ${target}`;
  const [, , , toRoom, toFolder] = path.split('/') as [string, string, string, string, string?];
  if (from !== 'server' || isTest || !(room in ROOMS)) return undefined;
  if (room === 'app' && toRoom === 'app' && folder !== toFolder && floorOf(toFolder) >= floorOf(folder)) {
    return `app/${folder} may not import app/${toFolder} (${file})`;
  }
  if (typeOnly && TYPES[room]?.includes(toRoom)) return undefined;
  return ROOMS[room]!.includes(toRoom) ? undefined : `server/${room} may not import server/${toRoom} (${file})`;
}

test('imports follow the directions of the design', () => {
  const files = globSync('packages/*/src/**/*.{ts,tsx}').filter((file) => !file.includes('/gen/'));
  assert.ok(files.length > 50);
  const wrong = files
    .flatMap((file) => importsOf(file, readFileSync(join(process.cwd(), file), 'utf8')))
    .flatMap((i) => breach(i) ?? []);
  assert.deepEqual(wrong, []);
});

test('requests reach agents only through the cluster, because an agent may be connected to another server', () => {
  const files = globSync('packages/server/src/http/**/*.ts').filter((file) => !file.endsWith('.test.ts'));
  assert.ok(files.length > 50);
  const past = files.flatMap((file) => {
    const text = readFileSync(file, 'utf8');
    return importsOf(file, text).some(({ target }) => target.endsWith('/rpc/agent/connections.ts'))
      ? [{ file, text }]
      : [];
  });
  // the route on which agents connect
  assert.deepEqual(
    past.map(({ file }) => file),
    ['packages/server/src/http/routes/agents.ts'],
  );
  assert.match(past[0]!.text, /connections: Pick<AgentConnections, 'serve'>/);
});

test('every folder of rules stands on one floor', () => {
  const folders = globSync('packages/server/src/app/*').map((path) => basename(path));
  assert.deepEqual(folders.toSorted(), FLOORS.flat().toSorted());
});

test('no files import each other in a circle, not even types', () => {
  const files = globSync('packages/*/src/**/*.{ts,tsx}').filter((file) => !file.includes('/gen/'));
  assert.deepEqual(circles(files.flatMap((file) => importsOf(file, readFileSync(file, 'utf8')))), []);
  const imports = (file: string, text: string) => importsOf(`packages/kit/src/${file}`, text);
  assert.deepEqual(
    circles([
      ...imports('a.ts', "import { b } from './b/b.ts';"),
      ...imports('b/b.ts', "export { a } from '../a.ts';"),
    ]),
    ['packages/kit/src/a.ts → packages/kit/src/b/b.ts → packages/kit/src/a.ts'],
  );
  for (const back of ["import type { A } from './a.ts';", "const a = await import('./a.ts');"])
    assert.equal(
      circles([...imports('a.ts', "import { b } from './b.ts';"), ...imports('b.ts', back)]).length,
      1,
      back,
    );
});

test('a daemon registers before it loads what jobs need', () => {
  const LATER =
    /^(@ropewalk\/(hcl|terraform-provider|wire(\/proto\/.*|\/drpc)?)|@bufbuild\/protobuf|tar-stream|fflate)$/;
  const waiting = ['packages/provisioner/src/index.ts'];
  const wrong: string[] = [];
  for (const file of waiting)
    for (const { target, typeOnly, lazy } of importsOf(file, readFileSync(file, 'utf8'))) {
      if (typeOnly || lazy) continue;
      const path = join(file, '..', target);
      if (LATER.test(target)) wrong.push(`${file} loads ${target}`);
      else if (target.startsWith('.') && !waiting.includes(path)) waiting.push(path);
    }
  assert.deepEqual(wrong, []);
  assert.ok(waiting.includes('packages/provisioner/src/daemon/link.ts'));
});

test('a package declares what it imports, and imports what it declares', () => {
  const wrong: string[] = [];
  for (const file of globSync('packages/*/package.json')) {
    const dir = file.replace('/package.json', '');
    const {
      name,
      dependencies = {},
      devDependencies = {},
      optionalDependencies = {},
    } = JSON.parse(readFileSync(file, 'utf8')) as {
      name: string;
    } & Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Record<string, string>>;
    const imported = new Set<string>();
    for (const source of globSync([`${dir}/src/**/*.{ts,tsx,js,css}`, `${dir}/*.config.ts`])) {
      for (const { target } of importsOf(source, readFileSync(source, 'utf8'))) {
        const bare = /^(@[^/]+\/[^/]+|[^./@][^/]*)/.exec(target)?.[1];
        if (bare && !bare.startsWith('node:') && bare !== name) imported.add(bare);
      }
    }
    const declared = { ...dependencies, ...devDependencies, ...optionalDependencies };
    for (const target of imported) if (!(target in declared)) wrong.push(`${name} does not declare ${target}`);
    for (const target of Object.keys(dependencies))
      if (!imported.has(target)) wrong.push(`${name} does not use ${target}`);
  }
  assert.deepEqual(wrong, []);
});

test('the check finds forbidden imports', () => {
  const see = (file: string, text: string) => importsOf(file, text).map(breach);
  assert.match(
    see('packages/cli/src/commands/a.ts', "import { x } from '@ropewalk/server';")[0]!,
    /may not import server/,
  );
  assert.match(see('packages/kit/src/a.ts', "import { x } from '@ropewalk/wire';")[0]!, /kit may not import wire/);
  assert.match(
    see('packages/server/src/app/a.ts', "import { x } from '../http/errors.ts';")[0]!,
    /server\/app may not import server\/http/,
  );
  const server = (room: string, text: string) => see(`packages/server/src/${room}/a.ts`, text)[0];
  assert.match(server('db', "import type { X } from '../app/context.ts';")!, /server\/db may not import server\/app/);
  assert.match(server('db', "import { x } from '../authz/proofs.ts';")!, /server\/db may not import server\/authz/);
  assert.equal(server('db', "import type { X } from '../authz/proofs.ts';"), undefined);
  assert.match(server('authz', "import type { X } from '../app/context.ts';")!, /may not import server\/app/);
  assert.match(server('metrics', "import { x } from '../http/errors.ts';")!, /server\/metrics may not import/);
  const app = (folder: string, text: string) => see(`packages/server/src/app/${folder}/a.ts`, text)[0];
  assert.match(app('find', "import type { X } from '../job/x.ts';")!, /app\/find may not import app\/job/);
  assert.match(app('task', "import { x } from '../prebuild/x.ts';")!, /app\/task may not import app\/prebuild/);
  assert.equal(app('workspace/build', "import { x } from '../../../app/job/x.ts';"), undefined);
  assert.match(see('packages/agent/src/a.ts', "import { x } from '../../server/src/main.ts';")[0]!, /another package/);
  assert.equal(
    see('packages/cli/src/commands/daemons/server/server.ts', "const s = await import('@ropewalk/server');")[0],
    undefined,
  );
});
