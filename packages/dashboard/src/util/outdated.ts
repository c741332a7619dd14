/** Whether a daemon or an agent has another version than the server, which usually is an older one. */
export const isOutdated = ({ version }: { version: string }, serverVersion: string | undefined): boolean =>
  serverVersion !== undefined && version !== '' && version !== serverVersion;
