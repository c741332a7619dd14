import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorText } from '@ropewalk/kit';
import { type DatabaseUrl, parseDatabaseUrl } from './database-url.ts';

const read = (url: string): Omit<DatabaseUrl, 'rest'> & { rest: string } => {
  const { rest, ...parts } = parseDatabaseUrl(url);
  return { ...parts, rest: rest.href };
};
const NONE = { socketDir: undefined, passfile: undefined, sessions: undefined };

test('reads the forms of libpq', () => {
  const one = { ...NONE, user: 'me@x', database: 'co der' };
  assert.deepEqual(read('postgres://me%40x:p%2Fw@db:5433/co%20der?sslmode=require'), {
    ...one,
    hosts: [{ host: 'db', port: 5433 }],
    rest: 'postgres://me%40x:p%2Fw@localhost:5433/co%20der?sslmode=require',
  });
  const both = [
    { host: 'a', port: 5432 },
    { host: '::1', port: 6000 },
  ];
  for (const url of [
    'postgresql://me@a,[::1]:6000/db',
    'postgresql://me@/db?host=a,[::1]&port=5432,6000',
    'postgresql://me@ignored/db?host=a,[::1]:6000',
  ]) {
    const { hosts, sessions, user } = parseDatabaseUrl(url);
    assert.deepEqual({ hosts, sessions, user }, { hosts: both, sessions: 'primary', user: 'me' }, url);
  }
  assert.deepEqual(
    parseDatabaseUrl('postgres://a,b/db?port=7000').hosts.map(({ port }) => port),
    [7000, 7000],
  );
  assert.deepEqual(read('postgres://ignored/db?host=/run/pg&passfile=/p'), {
    ...NONE,
    hosts: [],
    socketDir: '/run/pg',
    user: '',
    database: 'db',
    passfile: '/p',
    rest: 'postgres://localhost/db',
  });
});

test('says which sessions it accepts', () => {
  const sessions = (attributes: string, hosts = 'a') =>
    parseDatabaseUrl(`postgres://${hosts}/db?target_session_attrs=${attributes}`).sessions;
  assert.equal(sessions('read-write'), 'primary');
  assert.equal(sessions('any', 'a,b'), undefined);
  assert.equal(sessions('prefer-standby'), 'prefer-standby');
  assert.equal(parseDatabaseUrl('postgres://a,b/db').sessions, 'primary');
});

test('rejects what it cannot read, without the password', () => {
  for (const [url, why] of [
    ['host=db user=me password=secret', /begins with postgres:/],
    ['postgres://me:secret@db:port/x', /as NAME, NAME:PORT/],
    ['postgres://me:secret@db:70000/x', /1 to 65535/],
    ['postgres://me:secret@::1/x', /\[ADDRESS\]:PORT/],
    ['postgres://me:secret/x@db/x', /as NAME, NAME:PORT/],
    ['postgres://me:secret@db/x?target_session_attrs=toString', /one of any, read-write/],
  ] as const)
    assert.throws(
      () => parseDatabaseUrl(url),
      (err) => why.test(errorText(err)) && !errorText(err).includes('secret'),
      url,
    );
});
