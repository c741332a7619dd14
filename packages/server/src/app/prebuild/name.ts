import { randomInt } from 'node:crypto';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';
const LENGTH = 9;

/** A name for an unclaimed workspace, which its new owner replaces. */
export function newPrebuildName(): string {
  const random = Array.from({ length: LENGTH }, () => LETTERS[randomInt(LETTERS.length)]);
  return `prebuild-${random.join('')}`;
}
