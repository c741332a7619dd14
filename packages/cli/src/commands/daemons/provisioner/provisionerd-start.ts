import { command } from '../../../framework/definition.ts';
import { note } from '../../../framework/io.ts';
import { isSecondLife } from './handover.ts';
import start, { flags } from './start.ts';

/** The old name of `coder provisioner start`. */
export default command({ flags }, (ctx, given) => {
  if (!isSecondLife())
    note(ctx.io, 'warning: `coder provisionerd start` is deprecated. Use `coder provisioner start`.');
  return start.run(ctx, given as never);
});
