import {
  count,
  EvaluationError,
  jsonText,
  primitiveText,
  readingSteps,
  toBool,
  toNumber,
  toText,
  type Value,
} from '../values.ts';
import type { Meter } from './types.ts';

const MAX_WIDTH = 10_000;
// A width starts after the zeros, which are flags, so that no digit can belong to both.
const VERB = /%([-+ 0#]*)([1-9]\d*)?(?:\.(\d+))?(?:\[(\d+)\])?([a-zA-Z%])|%/g;

function exponent(n: number, digits: number, upper: boolean): string {
  const out = n.toExponential(digits).replace(/e([-+])(\d)$/, 'e$10$2');
  return upper ? out.toUpperCase() : out;
}

/** Go's %g: the shortest text, with an exponent if that is shorter. */
function general(n: number, precision: number | undefined): string {
  if (precision !== undefined) {
    const [, power] = n.toExponential(Math.max(precision - 1, 0)).split('e');
    const p = Number(power);
    if (p < -4 || p >= precision)
      return exponent(Number(n.toPrecision(Math.max(precision, 1))), Math.max(precision - 1, 0), false).replace(
        /\.?0+e/,
        'e',
      );
    return String(Number(n.toPrecision(Math.max(precision, 1))));
  }
  const p = n === 0 ? 0 : Math.floor(Math.log10(Math.abs(n)));
  return p < -4 || p >= 21 ? n.toExponential().replace(/e([-+])(\d)$/, 'e$10$2') : String(n);
}

function whole(value: Value): bigint {
  const n = toNumber(value);
  if (!Number.isInteger(n)) throw new EvaluationError('A whole number is needed here.');
  return BigInt(n);
}

function convert(verb: string, value: Value, precision: number | undefined, flags: string): string {
  const cut = (s: string) => (precision === undefined ? s : [...s].slice(0, precision).join(''));
  switch (verb) {
    case 'v':
      if (value === null) return 'null';
      return primitiveText(value) ?? jsonText(value);
    case 's':
      return cut(toText(value));
    case 'q':
      return JSON.stringify(cut(toText(value)));
    case 't':
      return String(toBool(value));
    case 'd':
      return whole(value).toString();
    case 'b':
      return whole(value).toString(2);
    case 'o':
      return whole(value).toString(8);
    case 'x':
    case 'X': {
      const hex =
        typeof value === 'string' && !/^-?\d+$/.test(value)
          ? Buffer.from(value).toString('hex')
          : whole(value).toString(16);
      const marked = flags.includes('#') ? `0x${hex}` : hex;
      return verb === 'X' ? marked.toUpperCase() : marked;
    }
    case 'e':
    case 'E':
      return exponent(toNumber(value), precision ?? 6, verb === 'E');
    case 'f':
      return toNumber(value).toFixed(Math.min(precision ?? 6, 100));
    case 'g':
    case 'G':
      return general(toNumber(value), precision);
    default:
      throw new EvaluationError(`%${verb} is not a verb of format.`);
  }
}

/** Terraform's `format`: Go's verbs over values. */
export function format(meter: Meter, spec: string, args: readonly Value[]): string {
  let next = 0;
  let highest = 0;
  let size = spec.length;
  const argument = (at: string | undefined): Value => {
    if (at !== undefined) next = Number(at) - 1;
    const value = args[next++];
    if (next > highest) highest = next;
    if (value === undefined) throw new EvaluationError(`The format needs more than ${args.length} arguments.`);
    return value;
  };
  const text = spec.replace(VERB, (_all, flags = '', w?: string, p?: string, at?: string, verb?: string) => {
    if (verb === undefined)
      throw new EvaluationError('A % in the format is not followed by a verb; write %% for a percent sign.');
    if (verb === '%') return '%';
    const value = argument(at);
    if (value === null && verb !== 'v') throw new EvaluationError('A null cannot be formatted.');
    meter.steps(readingSteps(value));
    const precision = p === undefined ? undefined : Number(p);
    const width = w === undefined ? 0 : Number(w);
    if (width > MAX_WIDTH || (precision ?? 0) > MAX_WIDTH)
      throw new EvaluationError(`The width or precision is more than ${count(MAX_WIDTH)}.`);
    const made = padded(convert(verb, value, precision, flags), verb, flags, width);
    size += made.length;
    meter.room(size);
    return made;
  });
  if (highest < args.length) throw new EvaluationError(`The format uses ${highest} of ${args.length} arguments.`);
  return text;
}

/** Adds sign and width to the text of a verb. */
function padded(text: string, verb: string, flags: string, width: number): string {
  const number = 'dbofeEgGxX'.includes(verb);
  const positive = number && !text.startsWith('-');
  const made = positive && flags.includes('+') ? `+${text}` : positive && flags.includes(' ') ? ` ${text}` : text;
  const missing = width === 0 ? 0 : width - [...made].length;
  if (missing <= 0) return made;
  if (flags.includes('-')) return made + ' '.repeat(missing);
  if (!flags.includes('0')) return ' '.repeat(missing) + made;
  const sign = number ? /^[-+ ]/.exec(made) : null;
  return sign ? sign[0] + '0'.repeat(missing) + made.slice(1) : '0'.repeat(missing) + made;
}
