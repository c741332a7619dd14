import { isIP } from 'node:net';
import { EvaluationError, list, toNumber, toText } from '../values.ts';
import { type Fn, MANY } from './types.ts';

/** A range of addresses: those whose first `prefix` bits are those of `base`. */
interface Network {
  bits: 32 | 128;
  base: bigint;
  prefix: number;
}

function parseAddress(text: string): { bits: 32 | 128; value: bigint } | undefined {
  const kind = isIP(text);
  if (kind === 0 || text.includes('%')) return undefined;
  const bytes = (dotted: string) => dotted.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n);
  if (kind === 4) return { bits: 32, value: bytes(text) };
  // the last 32 bits may be written as an address of version 4
  const dotted = /[^:]+\.[^:]+$/.exec(text)?.[0];
  const plain = dotted
    ? text.slice(0, -dotted.length) + [16n, 0n].map((by) => ((bytes(dotted) >> by) & 0xffffn).toString(16)).join(':')
    : text;
  const [head = '', tail] = plain.split('::');
  const groups = (part: string | undefined) => (part ? part.split(':') : []);
  const [first, last] = [groups(head), groups(tail)];
  const all = [...first, ...Array<string>(8 - first.length - last.length).fill('0'), ...last];
  return { bits: 128, value: all.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n) };
}

function formatAddress(bits: 32 | 128, value: bigint): string {
  if (bits === 32) return [24n, 16n, 8n, 0n].map((by) => (value >> by) & 0xffn).join('.');
  const groups = Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
  // Go shortens the first of the longest runs of at least two zeros
  const runs = [...groups.join(':').matchAll(/(?<![^:])0(?::0)+(?![^:])/g)].map(([run]) => run);
  const longest = runs.reduce((best, run) => (run.length > best.length ? run : best), '');
  if (longest === '') return groups.join(':');
  const text = `:${groups.join(':')}:`;
  const at = text.indexOf(`:${longest}:`);
  const shortened = `${text.slice(0, at)}::${text.slice(at + longest.length + 2)}`;
  return shortened.replace(/^:(?!:)/, '').replace(/(?<!:):$/, '');
}

function parseNetwork(text: string): Network {
  const [, address, prefix] = /^(.+)\/(\d{1,3})$/.exec(text) ?? [];
  const parsed = address === undefined ? undefined : parseAddress(address);
  if (!parsed || Number(prefix) > parsed.bits)
    throw new EvaluationError(`${JSON.stringify(text)} is not a network such as "10.0.0.0/16".`);
  return masked(parsed.bits, parsed.value, Number(prefix));
}

function masked(bits: 32 | 128, value: bigint, prefix: number): Network {
  const rest = BigInt(bits - prefix);
  return { bits, base: (value >> rest) << rest, prefix };
}

const written = ({ bits, base, prefix }: Network) => `${formatAddress(bits, base)}/${prefix}`;

function whole(value: number, what: string): number {
  if (Number.isSafeInteger(value)) return value;
  throw new EvaluationError(`${what} must be a whole number.`);
}

function host({ bits, base, prefix }: Network, number: number): string {
  const size = 1n << BigInt(bits - prefix);
  const at = BigInt(number) < 0n ? size + BigInt(number) : BigInt(number);
  if (at < 0n || at >= size) throw new EvaluationError(`A network with prefix ${prefix} has no host number ${number}.`);
  return formatAddress(bits, base | at);
}

function longer({ bits, prefix }: Network, by: number): number {
  if (by < 0 || prefix + by > bits)
    throw new EvaluationError(`A prefix of ${prefix} cannot be extended by ${by} bits: the limit is ${bits}.`);
  return prefix + by;
}

function subnet(network: Network, by: number, number: number): string {
  const prefix = longer(network, by);
  const most = 1n << BigInt(by);
  const at = BigInt(number) < 0n ? most + BigInt(number) : BigInt(number);
  if (at < 0n || at >= most) throw new EvaluationError(`A prefix extended by ${by} bits has no subnet ${number}.`);
  return written({ ...network, base: network.base | (at << BigInt(network.bits - prefix)), prefix });
}

/** Returns consecutive subnets, each aligned to its own size. */
function subnets(network: Network, by: readonly number[]): string[] {
  const end = network.base + (1n << BigInt(network.bits - network.prefix));
  let next = network.base;
  return by.map((bits) => {
    if (bits < 1) throw new EvaluationError('Each subnet must extend the prefix by at least one bit.');
    const prefix = longer(network, bits);
    const size = 1n << BigInt(network.bits - prefix);
    const base = ((next + size - 1n) / size) * size;
    if (base + size > end) throw new EvaluationError('The network has no room for all of these subnets.');
    next = base + size;
    return written({ ...network, base, prefix });
  });
}

function netmask(text: string): string {
  const { bits, prefix } = parseNetwork(text);
  if (bits !== 32) throw new EvaluationError('Only networks of IP version 4 have a netmask.');
  return formatAddress(32, masked(32, 0xffff_ffffn, prefix).base);
}

export const network: Record<string, Fn> = {
  cidrhost: {
    least: 2,
    run: (prefix, number) => host(parseNetwork(toText(prefix!)), whole(toNumber(number!), 'The host number')),
  },
  cidrnetmask: { least: 1, run: (prefix) => netmask(toText(prefix!)) },
  cidrsubnet: {
    least: 3,
    run: (prefix, bits, number) =>
      subnet(
        parseNetwork(toText(prefix!)),
        whole(toNumber(bits!), 'The number of bits'),
        whole(toNumber(number!), 'The subnet number'),
      ),
  },
  cidrsubnets: {
    least: 1,
    most: MANY,
    run: (prefix, ...bits) =>
      list(
        subnets(
          parseNetwork(toText(prefix!)),
          bits.map((by) => whole(toNumber(by), 'The number of bits')),
        ),
      ),
  },
};
