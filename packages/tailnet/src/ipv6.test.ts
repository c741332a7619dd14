import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { checksum, IPV6_HEADER_BYTES } from './ipv6.ts';

/** RFC 1071, a number of 16 bits at a time, over the addresses, the length, the protocol and the payload. */
function plainChecksum(packet: Uint8Array): number {
  let sum = packet.length - IPV6_HEADER_BYTES + packet[6]!;
  for (let i = 8; i < packet.length; i += 2) sum += packet[i]! * 256 + (packet[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum % 65_536) + Math.floor(sum / 65_536);
  return 0xffff - sum;
}

test('checksums of packets of all lengths, at all alignments', () => {
  const random = seededRandom(1071);
  for (let length = IPV6_HEADER_BYTES; length < 9_000; length += 1 + random(13))
    for (const offset of [0, 1, 2, 4]) {
      const packet = Buffer.alloc(offset + length, length % 5 === 0 ? 0xff : 0).subarray(offset);
      if (length % 5 !== 0) for (let i = 0; i < length; i++) packet[i] = random(256);
      assert.equal(checksum(packet), plainChecksum(packet), `${length} bytes at ${offset}`);
    }
  const longest = Buffer.alloc(IPV6_HEADER_BYTES + 65_535, 0xff);
  assert.equal(checksum(longest), plainChecksum(longest));
});
