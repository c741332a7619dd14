import { daemonUid, type UidBlock } from '@ropewalk/kit';

/**
 * Changes this process, which root started, to the daemon's user. The process joins the groups of all builds, because
 * it reads their files. It changes its uid without executing another program, so the kernel makes it non-dumpable: no
 * other process of its uid can read its memory or environment.
 */
export function becomeDaemon(block: UidBlock): void {
  const uid = daemonUid(block);
  // builds must be able to enter the daemon's folders
  process.umask(0o022);
  process.setgroups!(Array.from({ length: block.count }, (_, index) => block.first + index));
  process.setgid!(uid);
  process.setuid!(uid);
}
