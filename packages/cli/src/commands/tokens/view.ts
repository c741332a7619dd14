import { command } from '../../framework/definition.ts';
import { tableFlags } from '../../lib/flags.ts';
import { printRows } from '../../lib/output.ts';
import { type TokenColumn, tokenColumns } from './columns.ts';
import { findToken } from './find.ts';

const flags = tableFlags(Object.keys(tokenColumns) as TokenColumn[]);

export default command({ args: { token: { usage: 'name|id' } }, flags }, async (ctx, { args, flags: given }) => {
  printRows(ctx, given, tokenColumns, [await findToken(await ctx.client(), args.token)]);
});
