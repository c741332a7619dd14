import { command } from '../../framework/definition.ts';
import { outliveOutputs } from './outputs.ts';

/** The process that runs Terraform in the single executable. It exits when it has no more work. */
export default command({}, async () => {
  const { runRunner } = await import('@platform/provisioner/runner/main');
  process.removeAllListeners('SIGINT');
  outliveOutputs();
  runRunner();
  await new Promise(() => {});
});
