import { AppError } from '@platform/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { findWorkspace } from '../../lib/workspace.ts';

export default command({ args: '<workspace> <always|never>', flags: yesFlag }, async (ctx, { args }) => {
  const policy = args[1]!;
  if (policy !== 'always' && policy !== 'never') {
    throw new AppError('invalid', `${JSON.stringify(policy)} is neither always nor never.`);
  }
  const client = await ctx.client();
  const { id, name } = await findWorkspace(client, args[0]!);
  await client.call('PUT /workspaces/{workspace}/autoupdates', {
    params: { workspace: id },
    body: { automatic_updates: policy },
  });
  print(ctx.io, `The workspace ${name} is updated at its start: ${policy}.`);
});
