/**
 * glibc's settings for processes that run for long. By default its threshold for giving memory back grows with the
 * largest block that was ever freed, so that a burst of work leaves tens of megabytes with the process for ever. Other
 * systems ignore these variables. A process reads them when it starts.
 */
export const ALLOCATOR: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '131072',
  MALLOC_TRIM_THRESHOLD_: '131072',
};

/** Whether the process that got this environment has the settings. */
export function hasAllocator(env: NodeJS.ProcessEnv = process.env): boolean {
  return Object.keys(ALLOCATOR).some((name) => env[name] !== undefined);
}

/** Removes the settings from the environment, so that child processes do not inherit them. */
export function forgetAllocator(env: NodeJS.ProcessEnv = process.env): void {
  for (const name of Object.keys(ALLOCATOR)) delete env[name];
}

/**
 * Makes the settings apply to this process: replaces it with the same program, arguments and process id, unless they are
 * set already. Call it before anything else, since what the process did is lost.
 */
export function applyAllocator(isExecutable: boolean): void {
  if (hasAllocator()) {
    forgetAllocator();
    return;
  }
  if (process.platform !== 'linux' || !process.execve) return;
  // an executable's arguments begin with its own path twice
  const rest = isExecutable ? process.argv.slice(2) : [...process.execArgv, ...process.argv.slice(1)];
  process.execve(process.execPath, [process.execPath, ...rest], { ...process.env, ...ALLOCATOR });
}
