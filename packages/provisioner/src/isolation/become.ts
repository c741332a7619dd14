import { daemonUid, type UidBlock } from '@platform/kit';

/**
 * Turns this process, which root started, into the daemon's. It is a member of the groups of all builds, whose files it
 * reads. Because it changes its uid and executes no other program, the kernel makes it non-dumpable: no other process
 * of its uid can read its memory or environment either.
 */
export function becomeDaemon(block: UidBlock): void {
  const uid = daemonUid(block);
  // builds pass through the daemon's folders
  process.umask(0o022);
  process.setgroups!(Array.from({ length: block.count }, (_, index) => block.first + index));
  process.setgid!(uid);
  process.setuid!(uid);
}
