import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { daemonUid, type UidBlock } from '@ropewalk/kit';
import { directoryHash } from '../postgres/place.ts';
import { folders } from './builtin-daemons.ts';

const skip = process.getuid?.() !== 0 && 'needs root';
const uids: UidBlock = { first: 1_900_000_000, count: 100 };

test('as root: the built-in daemons keep to CODER_CACHE_DIRECTORY where their user reaches it', { skip }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'builtin-'));
  const hidden = mkdtempSync(join(tmpdir(), 'builtin-hidden-'));
  const open = mkdtempSync(join(tmpdir(), 'builtin-open-'));
  chmodSync(dir, 0o755);
  chmodSync(open, 0o777);
  const hash = directoryHash(dir);
  const elsewhere = join('/var/lib/coder/provisioners', hash);
  t.after(() => {
    for (const path of [dir, hidden, open, elsewhere]) rmSync(path, { recursive: true, force: true });
  });
  const places = {
    [join(dir, 'cache')]: join(dir, 'cache', 'provisioners', hash),
    [hidden]: elsewhere,
    [open]: elsewhere,
  };
  for (const [cache, place] of Object.entries(places)) {
    const { base, daemons, home } = folders(dir, cache, uids);
    assert.equal(base, elsewhere, 'homes of workspaces are not in the cache');
    assert.equal(daemons, join(place, 'daemons'));
    assert.equal(statSync(place).uid, 0);
    assert.equal(statSync(home).uid, daemonUid(uids));
  }
});

test('as root: a link in the folder of the daemons leads root nowhere', { skip }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'builtin-'));
  const victim = mkdtempSync(join(tmpdir(), 'builtin-victim-'));
  chmodSync(dir, 0o755);
  const cache = join(dir, 'cache');
  t.after(() => {
    const base = join('/var/lib/coder/provisioners', directoryHash(dir));
    for (const path of [dir, victim, base]) rmSync(path, { recursive: true, force: true });
  });
  const { daemons } = folders(dir, cache, uids);
  for (const name of ['home', 'daemons', 'daemons-home']) {
    rmSync(join(daemons, name), { recursive: true, force: true });
    symlinkSync(victim, join(daemons, name));
  }
  folders(dir, cache, uids);
  assert.equal(statSync(victim).uid, 0);
});
