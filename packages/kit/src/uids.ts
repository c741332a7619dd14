/** The uids of one installation; every uid has the group of the same number. */
export interface UidBlock {
  first: number;
  count: number;
}

export const daemonUid = ({ first }: UidBlock): number => first;

/** What the launcher reads from its standard input, as one line. It ends when that is closed and nothing runs. */
export interface LauncherInput {
  block: UidBlock;
  socketPath: string;
  /** Root's folder for the records of uids, and for their homes. */
  base: string;
  /** The daemons' folder: builds run below it. */
  daemonDir: string;
}
