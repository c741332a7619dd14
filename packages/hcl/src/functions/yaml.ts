import { Document, isScalar, parseDocument, Scalar, type ScalarTag, visit } from 'yaml';
import { count, EvaluationError, fromJson, toJson, toText, type Value } from '../values.ts';
import type { Fn, Meter } from './types.ts';

/** The limit of YAML text. Parsing takes much longer than for JSON. */
const MAX_YAML = 256 * 1024;

/** What Terraform reads beyond YAML 1.2's core schema. */
const WORDS: ScalarTag = {
  tag: 'tag:yaml.org,2002:bool',
  default: true,
  test: /^(?:[YyNn]|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF|[Tt]rue|TRUE|[Ff]alse|FALSE)$/,
  resolve: (text) => /^(?:y|yes|on|true)$/i.test(text),
};
const TIMESTAMPS: ScalarTag = {
  tag: 'tag:yaml.org,2002:timestamp',
  default: true,
  test: /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d:\d\d)(?:\.\d+)?\s*(Z|[-+]\d\d:\d\d)?)?$/,
  resolve: (text) => {
    const [, date, time = '00:00:00', zone = 'Z'] = TIMESTAMPS.test!.exec(text)!;
    return `${date}T${time}${zone}`;
  },
};

function decode(meter: Meter, text: string): Value {
  if (text.length > MAX_YAML) throw new EvaluationError(`The YAML has more than ${count(MAX_YAML)} characters.`);
  meter.steps(1 + Math.floor(text.length / 4));
  const document = parseDocument(text, {
    schema: 'core',
    customTags: (tags) => [WORDS, TIMESTAMPS, ...tags],
    merge: true,
    uniqueKeys: false,
    logLevel: 'error',
  });
  const [error] = document.errors;
  if (error) throw new EvaluationError(`The string is not valid YAML: ${error.message.split('\n')[0]}`);
  if (!document.contents || (isScalar(document.contents) && document.contents.source === ''))
    throw new EvaluationError('The YAML is empty.');
  // aliases can repeat a text many times
  return fromJson(document.toJS({ maxAliasCount: 100 }));
}

/** Writes YAML as Terraform does: strings and keys in quotes, texts of several lines as blocks. */
function encode(value: Value): string {
  const document = new Document(toJson(value), { aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value !== 'string') return;
      node.type = /\n/.test(node.value) && !/ \n/.test(node.value) ? Scalar.BLOCK_LITERAL : Scalar.QUOTE_DOUBLE;
    },
  });
  const text = document.toString({ indentSeq: false, lineWidth: 0, minContentWidth: 0 });
  if (typeof value === 'object' && value !== null) return text;
  if (typeof value !== 'string') return `${text}...\n`;
  return text.replace(/\n(?!$)/g, '\n  ');
}

export const yaml: Record<string, Fn> = {
  yamldecode: { least: 1, metered: (meter, text) => decode(meter, toText(text!)) },
  yamlencode: { least: 1, nulls: true, run: (value) => encode(value!) },
};
