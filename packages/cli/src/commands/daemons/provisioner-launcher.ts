import { command } from '../../framework/definition.ts';

/** The root process that starts builds under uids of their own; see the provisioner's isolation/protocol.ts. */
export default command({}, async () => {
  const { runLauncher } = await import('@platform/provisioner/isolation/launcher');
  process.removeAllListeners('SIGINT');
  runLauncher();
  await new Promise(() => {});
});
