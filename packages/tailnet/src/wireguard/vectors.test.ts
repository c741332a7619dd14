import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyPair } from '../keys.ts';
import { fromHex, hex, vectors } from '../testing/vectors.ts';
import {
  consumeInitiation,
  consumeResponse,
  createInitiation,
  createResponse,
  INITIAL_CHAIN_KEY,
  INITIAL_HASH,
  StaticKeys,
  timestampOf,
} from './handshake.ts';
import { MacChecker, MacWriter } from './macs.ts';
import { paddingOf, Session, trimPacket } from './session.ts';

type Texts = Record<
  | 'cookie'
  | 'cookieReply'
  | 'cookieSecret'
  | 'cookieSourceBytes'
  | 'dataInitiator1'
  | 'dataInitiator1Inner'
  | 'dataResponder0'
  | 'dataResponder0Inner'
  | 'finalChainKey'
  | 'finalHash'
  | 'initialChainKey'
  | 'initialHash'
  | 'initiation'
  | 'initiationWithMac2'
  | 'initiatorEphemeralPrivate'
  | 'initiatorStaticPrivate'
  | 'initiatorStaticPublic'
  | 'keepaliveInitiator0'
  | 'keyInitiatorToResponder'
  | 'keyResponderToInitiator'
  | 'precomputedStaticStatic'
  | 'responderEphemeralPrivate'
  | 'responderStaticPrivate'
  | 'responderStaticPublic'
  | 'response'
  | 'timestampTai64n',
  string
>;
const recorded = vectors<
  Texts & {
    initiatorAfterInitiation: { chainKey: string; hash: string };
    paddingAtMtu1280ByLenHex16: Record<string, number>;
  }
>('wireguard');
const bytes = (name: keyof Texts) => fromHex(recorded[name]);
const pair = (name: keyof Texts) => KeyPair.fromPrivateKey(bytes(name));

const initiatorKeys = pair('initiatorStaticPrivate');
const responderKeys = pair('responderStaticPrivate');
const initiator = StaticKeys.between(initiatorKeys, responderKeys.publicKey)!;
const responder = StaticKeys.between(responderKeys, initiatorKeys.publicKey)!;
const initiatorIndex = bytes('initiation').readUInt32LE(4);
const responderIndex = bytes('response').readUInt32LE(4);

function initiate() {
  const created = createInitiation(
    initiator,
    initiatorIndex,
    bytes('timestampTai64n'),
    pair('initiatorEphemeralPrivate'),
  )!;
  new MacWriter(responderKeys.publicKey).write(created.message, 0);
  return created;
}

function respond() {
  const consumed = consumeInitiation(responder, bytes('initiation'))!;
  const created = createResponse(responder, consumed, responderIndex, pair('responderEphemeralPrivate'))!;
  new MacWriter(initiatorKeys.publicKey).write(created.message, 0);
  return created;
}

test('the constants and the static secret match the recorded ones', () => {
  assert.equal(hex(INITIAL_CHAIN_KEY), recorded.initialChainKey);
  assert.equal(hex(INITIAL_HASH), recorded.initialHash);
  assert.equal(hex(initiatorKeys.publicKey), recorded.initiatorStaticPublic);
  assert.equal(hex(responderKeys.publicKey), recorded.responderStaticPublic);
  assert.equal(hex(initiator.shared), recorded.precomputedStaticStatic);
  assert.equal(hex(responder.shared), recorded.precomputedStaticStatic);
});

test('the initiation matches, and the responder reads it', () => {
  const { message, state } = initiate();
  assert.equal(hex(message), recorded.initiation);
  const after = { chainKey: hex(state.chainKey), hash: hex(state.hash) };
  assert.deepEqual(after, recorded.initiatorAfterInitiation);
  const consumed = consumeInitiation(responder, bytes('initiation'))!;
  assert.equal(hex(consumed.timestamp), recorded.timestampTai64n);
  assert.deepEqual({ chainKey: hex(consumed.chainKey), hash: hex(consumed.hash) }, after);
  assert.equal(new MacChecker(responderKeys.publicKey).check(bytes('initiation')), true);
});

test('the response matches, and both sides have the recorded keys', () => {
  const created = respond();
  assert.equal(hex(created.message), recorded.response);
  const consumed = consumeResponse(initiator, initiate().state, bytes('response'))!;
  assert.equal(consumed.index, responderIndex);
  for (const { state } of [created, consumed]) {
    assert.equal(hex(state.chainKey), recorded.finalChainKey);
    assert.equal(hex(state.hash), recorded.finalHash);
  }
  assert.equal(hex(consumed.keys.send), recorded.keyInitiatorToResponder);
  assert.equal(hex(consumed.keys.receive), recorded.keyResponderToInitiator);
  assert.equal(hex(created.keys.send), recorded.keyResponderToInitiator);
  assert.equal(hex(created.keys.receive), recorded.keyInitiatorToResponder);
  assert.equal(new MacChecker(initiatorKeys.publicKey).check(bytes('response')), true);
});

function sessions(): { initiating: Session; responding: Session } {
  const { keys } = consumeResponse(initiator, initiate().state, bytes('response'))!;
  const common = { since: 0, keys };
  return {
    initiating: new Session({ ...common, index: initiatorIndex, peerIndex: responderIndex, isInitiator: true }),
    responding: new Session({
      ...common,
      index: responderIndex,
      peerIndex: initiatorIndex,
      isInitiator: false,
      keys: { send: keys.receive, receive: keys.send },
    }),
  };
}

test('data messages match in both directions, and open once', () => {
  const { initiating, responding } = sessions();
  assert.equal(hex(initiating.seal(Buffer.alloc(0))), recorded.keepaliveInitiator0);
  assert.equal(hex(initiating.seal(bytes('dataInitiator1Inner'))), recorded.dataInitiator1);
  assert.equal(hex(responding.seal(bytes('dataResponder0Inner'))), recorded.dataResponder0);
  assert.equal(hex(responding.open(bytes('keepaliveInitiator0'))), '');
  const padded = responding.open(bytes('dataInitiator1'))!;
  assert.equal(hex(trimPacket(padded)), recorded.dataInitiator1Inner);
  assert.equal(hex(trimPacket(initiating.open(bytes('dataResponder0'))!)), recorded.dataResponder0Inner);
  assert.equal(responding.open(bytes('dataInitiator1')), undefined);
  assert.equal(initiating.open(bytes('dataResponder0')), undefined);
});

test('padding matches at every recorded length', () => {
  const lengths = Object.entries(recorded.paddingAtMtu1280ByLenHex16);
  assert.ok(lengths.length >= 10);
  for (const [length, padding] of lengths) assert.equal(paddingOf(Number.parseInt(length, 16)), padding, length);
});

test('cookies and the second MAC match', () => {
  const source = bytes('cookieSourceBytes');
  const nonce = bytes('cookieReply').subarray(8, 32);
  const checker = new MacChecker(responderKeys.publicKey);
  const initiation = bytes('initiation');
  assert.equal(checker.checkCookie(bytes('initiationWithMac2'), source, 0), false);
  const reply = checker.reply(initiation, source, 0, { secret: bytes('cookieSecret'), nonce });
  assert.equal(hex(reply), recorded.cookieReply);
  assert.equal(checker.checkCookie(initiation, source, 0), false);
  assert.equal(checker.checkCookie(bytes('initiationWithMac2'), source, 119_999), true);
  assert.equal(checker.checkCookie(bytes('initiationWithMac2'), Buffer.from('another'), 0), false);
  assert.equal(checker.checkCookie(bytes('initiationWithMac2'), source, 120_000), false);

  const writer = new MacWriter(responderKeys.publicKey);
  assert.equal(writer.takeCookie(reply, 0), false, 'before any message');
  writer.write(Buffer.from(initiation), 0);
  const damaged = Buffer.from(reply);
  damaged[40]! ^= 1;
  assert.equal(writer.takeCookie(damaged, 0), false);
  assert.equal(writer.takeCookie(reply, 0), true);
  assert.equal(writer.takeCookie(reply, 0), false, 'twice');
  const bare = () => Buffer.concat([initiation.subarray(0, -32), Buffer.alloc(32)]);
  const signed = bare();
  writer.write(signed, 119_999);
  assert.equal(hex(signed), recorded.initiationWithMac2);
  const late = bare();
  writer.write(late, 120_000);
  assert.equal(hex(late), recorded.initiation);
});

test('timestamps count seconds and nanoseconds', () => {
  assert.equal(hex(timestampOf(0)), '400000000000000a00000000');
  assert.equal(hex(timestampOf(1_500, 7)), '400000000000000b1dcd6507');
  assert.ok(timestampOf(1_000).compare(timestampOf(999)) > 0);
});
