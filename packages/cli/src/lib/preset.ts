import type { Client } from '@platform/client';
import type { Preset } from '@platform/contract';
import { AppError } from '@platform/kit/errors';
import type { Context } from '../framework/context.ts';
import { note, print } from '../framework/io.ts';
import type { GivenValue } from './parameters.ts';

export interface PresetInput {
  versionId: string;
  /** Of the preset; empty for the template's default one, `none` for none. */
  name: string;
  /** What was given besides. */
  given: readonly GivenValue[];
}

/**
 * The preset of a new workspace. What it sets wins over all else, with the server too. So it is told, and each given
 * value that has no effect; the default preset, which nobody asked for, gives way instead. Throws `not_found`.
 */
export async function choosePreset(ctx: Context, client: Client, input: PresetInput): Promise<Preset | undefined> {
  const { name } = input;
  if (name.toLowerCase() === 'none') return undefined;
  const presets = await client.call('GET /templateversions/{templateversion}/presets', {
    params: { templateversion: input.versionId },
  });
  const found = presets.find((one) => (name === '' ? one.Default : one.Name === name));
  if (!found) {
    if (name === '') return undefined;
    const names = presets.map((one) => one.Name).join(', ');
    throw new AppError('not_found', `There is no preset ${JSON.stringify(name)}: ${names || 'the template has none'}.`);
  }
  const quoted = JSON.stringify(found.Name);
  const contradicted = found.Parameters.flatMap((set) => {
    const other = input.given.find((one) => one.name === set.Name && one.value !== set.Value);
    return other ? [{ set: `${set.Name}=${set.Value}`, from: other.from }] : [];
  });
  if (name === '' && contradicted.length > 0) {
    const { set, from } = contradicted[0]!;
    note(ctx.io, `The default preset ${quoted} is not applied: it sets ${set}, and ${from} says otherwise.`);
    return undefined;
  }
  for (const { set, from } of contradicted) {
    note(ctx.io, `Warning: ${from} has no effect: the preset ${quoted} sets ${set}.`);
  }
  const values = found.Parameters.map((one) => `${one.Name}=${one.Value}`).join(', ');
  print(ctx.io, `Preset ${quoted}${name === '' ? ' (default)' : ''} applied: ${values || 'it sets no values'}`);
  return found;
}
