import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';

export default command({ args: { job: { usage: 'job_id' } }, flags: orgFlag }, async (ctx, { args, flags }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, flags.org);
  const job = await client.call('GET /organizations/{organization}/provisionerjobs/{job}', {
    params: { organization: organization.id, job: args.job },
  });
  const { template_version_id: version, workspace_build_id: build } = job.input;
  if (job.type === 'workspace_build' && build) {
    await client.call('PATCH /workspacebuilds/{workspacebuild}/cancel', { params: { workspacebuild: build } });
  } else if (job.type === 'template_version_dry_run' && version) {
    await client.call('PATCH /templateversions/{templateversion}/dry-run/{jobID}/cancel', {
      params: { templateversion: version, jobID: job.id },
    });
  } else if (version) {
    await client.call('PATCH /templateversions/{templateversion}/cancel', { params: { templateversion: version } });
  } else {
    throw new AppError('invalid', `Cannot cancel the job ${job.id}: it belongs to no build, import or dry run.`);
  }
  print(ctx.io, `The job ${job.id} is being canceled.`);
});
