import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { findBuild } from '../../lib/find-build.ts';
import { followBuild } from '../../lib/job.ts';

const flags = {
  build: {
    type: 'int',
    short: 'b',
    description:
      'Number of the build whose template version and transition the new build uses. Default: the latest build.',
  },
  'no-build': {
    type: 'bool',
    short: 'n',
    description: 'Replace the state of the build and start none. The next build begins with it.',
  },
} as const;

export default command({ args: { workspace: {}, file: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client({ keepOnInterrupt: true });
  const build = await findBuild(client, args.workspace, given.build);
  const state = args.file === '-' ? await buffer(ctx.io.stdin) : readState(args.file);
  if (given['no-build']) {
    await client.call('PUT /workspacebuilds/{workspacebuild}/state', {
      params: { workspacebuild: build.id },
      body: { state: state.toString('base64') },
    });
    printDone(ctx, `The state of build ${build.build_number} of ${build.workspace_name} has been replaced.`);
    return;
  }
  const started = await client.call('POST /workspaces/{workspace}/builds', {
    params: { workspace: build.workspace_id },
    body: {
      template_version_id: build.template_version_id,
      transition: build.transition,
      state: state.toString('base64'),
    },
  });
  await followBuild(ctx, client, started.id);
  printDone(ctx, `\nThe state of ${build.workspace_name} has been replaced.`);
});

function readState(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (err) {
    throw new AppError('invalid', `Could not read ${path}: ${(err as Error).message}`);
  }
}
