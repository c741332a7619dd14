import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect as connectSocket, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, freshDatabase } from '@platform/testkit';
import { connect } from './connect.ts';

/** A way to a database, as a URL, that can be cut; `saw` gets what programs send through it. */
async function startWay(url: string, saw: (text: string, program: Socket) => void) {
  const folder = mkdtempSync(join(tmpdir(), 'platform-way-'));
  const target = new URL(url);
  const socketFolder = target.searchParams.get('host');
  const port = target.port || '5432';
  const programs = new Set<Socket>();
  const way = createServer((program) => {
    programs.add(program);
    const database = socketFolder
      ? connectSocket(join(socketFolder, `.s.PGSQL.${port}`))
      : connectSocket(Number(port), target.hostname);
    program.on('data', (bytes: Buffer) => {
      saw(bytes.toString('latin1'), program);
      database.write(bytes);
    });
    database.pipe(program);
    for (const one of [program, database]) one.on('error', () => {});
    program.on('close', () => {
      programs.delete(program);
      database.destroy();
    });
  });
  way.listen(join(folder, `.s.PGSQL.${port}`));
  await once(way, 'listening');
  target.searchParams.set('host', folder);
  return {
    url: target.href,
    cut: () => programs.forEach((program) => void program.destroy()),
    close() {
      way.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

test('a connection that is cut while it is made anew fails no one but who waits for it; arrays go on as before', async () => {
  const database = await freshDatabase();
  let first = true;
  let cuts = 0;
  const way = await startWay(database.url, (text, program) => {
    if (first || cuts > 0 || !text.includes('typarray')) return;
    cuts++;
    program.destroy();
  });
  const sql = connect(way.url, { max: 1 });
  const names = ['a', 'b"c'];
  const arrays = () => sql<{ names: string[] }[]>`SELECT ${names}::text[] AS names`;
  assert.deepEqual((await arrays())[0]!.names, names);
  first = false;
  way.cut();
  const [row] = await eventually('it is back', () => arrays().catch(() => undefined));
  assert.deepEqual(row!.names, names);
  assert.equal(cuts, 0, 'what the library asks on its own account is asked once');
  await sql.end({ timeout: 1 });
  way.close();
  await database.drop();
});
