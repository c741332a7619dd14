/**
 * glibc's settings for processes that run for long, as the image and the systemd units set them. By default its threshold
 * for giving memory back grows with the largest block that was ever freed, so that a burst of work leaves tens of megabytes
 * with the process for ever. Other systems ignore these variables.
 */
export const ALLOCATOR: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '131072',
  MALLOC_TRIM_THRESHOLD_: '131072',
};

/** The settings that this process was started with, for child processes that inherit nothing else. */
export function allocatorSettings(): Record<string, string> {
  return Object.fromEntries(
    Object.keys(ALLOCATOR).flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
