import { spawnSync } from 'node:child_process';

/** Runs a program and returns its output. Words of the command are separated by one space. */
export function run(command: string, input?: string): string {
  const [program, ...args] = command.split(' ');
  const { status, stdout, stderr, error } = spawnSync(program!, args, { encoding: 'utf8', input });
  if (error || status !== 0) throw new Error(`${command}: ${error?.message ?? stderr}`);
  return stdout;
}

/** Why this machine cannot run tests in network namespaces with these rules: it needs root, iproute2 and nftables. */
export function obstacle(name: string, rules: string): string | false {
  try {
    run(`ip netns add ${name}`);
  } catch (err) {
    return `needs network namespaces: ${(err as Error).message}`;
  }
  try {
    run(`ip netns exec ${name} nft -f -`, rules);
    return false;
  } catch (err) {
    return `needs nftables: ${(err as Error).message}`;
  } finally {
    run(`ip netns del ${name}`);
  }
}
