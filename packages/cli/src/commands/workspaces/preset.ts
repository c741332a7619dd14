import type { Client } from '@ropewalk/client';
import type { Preset } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { note, print, warn } from '../../framework/io.ts';
import type { GivenValue } from '../../lib/parameters.ts';

export interface PresetInput {
  versionId: string;
  /** The name of the preset. Empty for the default preset of the template, `none` for no preset. */
  name: string;
  /** The other parameter values. */
  given: readonly GivenValue[];
}

/**
 * Chooses the preset of a new workspace. Its values take precedence over all others, also on the server, so that each
 * other value without effect is a warning. A default preset that contradicts other values is not applied.
 * @throws AppError `not_found`.
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
    throw new AppError(
      'not_found',
      `Preset ${JSON.stringify(name)} not found. ${names ? `The template has: ${names}` : 'The template has no presets'}.`,
    );
  }
  const quoted = JSON.stringify(found.Name);
  const contradicted = found.Parameters.flatMap((set) => {
    const other = input.given.find((one) => one.name === set.Name && one.value !== set.Value);
    return other ? [{ set: `${set.Name}=${set.Value}`, from: other.from }] : [];
  });
  if (name === '' && contradicted.length > 0) {
    const { set, from } = contradicted[0]!;
    note(ctx.io, `Not applying the default preset ${quoted}: it sets ${set}, which contradicts ${from}.`);
    return undefined;
  }
  for (const { set, from } of contradicted) {
    warn(ctx, `${from} has no effect: the preset ${quoted} sets ${set}.`);
  }
  const values = found.Parameters.map((one) => `${one.Name}=${one.Value}`).join(', ');
  print(ctx.io, `Preset ${quoted}${name === '' ? ' (default)' : ''} applied: ${values || 'it sets no values'}`);
  return found;
}
