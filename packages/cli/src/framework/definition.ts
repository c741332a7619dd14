import type { Command, Context } from './context.ts';
import type { ArgDefs, Definition, FlagDefs, Given } from './types.ts';

/** Ties a definition to its handler, so that the handler's arguments and flags are typed by the definition. */
export function command<
  const A extends ArgDefs = Record<never, never>,
  const F extends FlagDefs = Record<never, never>,
>(definition: Definition<A, F>, run: (ctx: Context, given: Given<F, A>) => Promise<unknown>): Command {
  return {
    definition: definition as Definition,
    run: async (ctx, given) => {
      const code = await run(ctx, given as unknown as Given<F, A>);
      return typeof code === 'number' ? code : undefined;
    },
  };
}
