import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerParser, BadAnswer } from './answer-parser.ts';

interface Read {
  status: number;
  headers: string[];
  body: string;
  trailers: string[];
  reusable: boolean;
}

/** What comes of answers to these methods, in these parts; throws as the parser does. */
function read(parts: Buffer[], methods: string[] = ['GET'], end = false): Read[] {
  const parser = new AnswerParser();
  const out: Read[] = [];
  const next = () => {
    const method = methods[out.length];
    if (method === undefined) return;
    const got: Read = { status: 0, headers: [], body: '', trailers: [], reusable: false };
    let ended = false;
    parser.expect(
      {
        head({ status, headers }) {
          assert.equal(got.status, 0, 'one head');
          Object.assign(got, { status, headers });
        },
        data(part) {
          assert.ok(got.status > 0 && !ended);
          got.body += part.toString('latin1');
        },
        end(last, trailers) {
          assert.ok(got.status > 0 && !ended);
          ended = true;
          got.body += last?.toString('latin1') ?? '';
          got.trailers = trailers;
          got.reusable = parser.reusable;
          out.push(got);
        },
      },
      method,
    );
  };
  next();
  for (const part of parts) {
    const before = out.length;
    parser.take(part);
    if (out.length > before) next();
  }
  if (end) parser.ended();
  return out;
}

const bytes = (text: string) => Buffer.from(text, 'latin1');
const ANSWERS: [string, Partial<Read>, string?][] = [
  ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', { status: 200, body: 'hello', reusable: true }],
  ['HTTP/1.1 200\r\ncontent-length:0\r\n\r\n', { status: 200, body: '', headers: ['content-length', '0'] }],
  ['HTTP/1.1 204 No Content\r\nX: \xe9\r\n\r\n', { status: 204, headers: ['X', '\xe9'], reusable: true }],
  ['HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', { status: 304, body: '' }],
  ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', { status: 200, body: '' }, 'HEAD'],
  ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', { body: '', reusable: true }, 'HEAD'],
  [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;x="y"\r\nhello\r\nA\r\n, wide\r\n..\r\n0\r\nT: 1\r\nU: 2\r\n\r\n',
    { body: 'hello, wide\r\n..', trailers: ['T', '1', 'U', '2'], reusable: true },
  ],
  [
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 1\r\n\r\n!',
    { status: 201, body: '!' },
  ],
  ['HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\n!', { body: '!', reusable: false }],
  ['HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n!', { body: '!', reusable: false }],
  ['HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n!', { body: '!', reusable: true }],
  ['HTTP/1.1 200 OK\r\n\r\nuntil the end', { body: 'until the end', reusable: false }],
];

test('reads answers alike, however they are cut', () => {
  for (const [text, expected, method = 'GET'] of ANSWERS) {
    const all = bytes(text);
    for (let at = 0; at <= all.length; at++) {
      const [got, ...more] = read([all.subarray(0, at), all.subarray(at)], [method], true);
      assert.deepEqual(more, []);
      assert.deepEqual({ ...got, ...expected }, got, `${JSON.stringify(text)} cut at ${at}`);
    }
    const [single] = read(
      [...all].map((byte) => Buffer.from([byte])),
      [method],
      true,
    );
    assert.deepEqual({ ...single, ...expected }, single, `${JSON.stringify(text)} byte by byte`);
  }
});

test('reads answers one after the other, each for its request', () => {
  const texts = ANSWERS.filter(([, { reusable }, method]) => reusable && !method).map(([text]) => text);
  const got = read(
    texts.map(bytes),
    texts.map(() => 'GET'),
  );
  assert.equal(got.length, texts.length);
});

test('rejects ambiguous answers', () => {
  const ok = 'HTTP/1.1 200 OK\r\n';
  for (const text of [
    'HTTP/2 200 OK\r\n\r\n',
    'HTTP/1.1 20 OK\r\n\r\n',
    'HTTP/1.1 099 OK\r\n\r\n',
    'HTTP/1.1  200 OK\r\n\r\n',
    'ICY 200 OK',
    '\n',
    'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    `${ok}Content-Length: 1\r\nContent-Length: 1\r\n\r\n!`,
    `${ok}Content-Length: 1, 1\r\n\r\n!`,
    `${ok}Content-Length: +1\r\n\r\n!`,
    `${ok}Content-Length: 0x1\r\n\r\n!`,
    `${ok}Content-Length: 1 1\r\n\r\n!`,
    `${ok}Content-Length:\r\n\r\n!`,
    `${ok}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n`,
    `${ok}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`,
    `${ok}Transfer-Encoding: identity\r\n\r\n`,
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    `${ok}A: 1\r\n folded\r\n\r\n`,
    `${ok}A : 1\r\n\r\n`,
    `${ok}: 1\r\n\r\n`,
    `${ok}no colon\r\n\r\n`,
    `${ok}A: 1\nB: 2\r\n\r\n`,
    `${ok}A: 1\rB: 2\r\n\r\n`,
    `${ok}A: \0\r\n\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\nx\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n-1\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n 1\r\n!`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\n!!!`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\n!!\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n1\n!\r\n0\r\n\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n1111111111111\r\n`,
    `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n`,
    `${ok}Content-Length: 1\r\n\r\n!more`,
    `${ok}A: ${'a'.repeat(70_000)}`,
  ]) {
    assert.throws(() => read([bytes(text)]), BadAnswer, JSON.stringify(text.slice(0, 100)));
  }
});
