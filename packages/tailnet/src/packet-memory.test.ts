import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allocatePacket } from './packet-memory.ts';

test('packets of all lengths have their own bytes, at aligned offsets', () => {
  const lengths = [
    0,
    1,
    1_280,
    4_095,
    4_096,
    8_928,
    8_961,
    65_575,
    300_000,
    ...Array.from({ length: 100 }, () => 8_929),
  ];
  const packets = lengths.map((length, i) => allocatePacket(length).fill(i));
  for (const [i, packet] of packets.entries()) {
    assert.equal(packet.length, lengths[i]);
    assert.ok(packet.every((byte) => byte === i));
    assert.equal(packet.byteOffset % 8, 0);
  }
});
