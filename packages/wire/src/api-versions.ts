// The versions of the two wire protocols that the server accepts, by upstream's numbers. A peer's minor version may be
// any up to this one: later versions only add fields, which protobuf skips, and calls, which end with code 12.

export interface ApiVersion {
  major: number;
  minor: number;
}

/** Provisioner daemons. Our own speak 1.8. */
export const PROVISIONER_API: ApiVersion = { major: 1, minor: 20 };
/** Workspace agents. Our own speak 2.6. */
export const AGENT_API: ApiVersion = { major: 2, minor: 11 };

export const formatApiVersion = ({ major, minor }: ApiVersion): string => `${major}.${minor}`;
