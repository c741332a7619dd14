declare global {
  /** Set in the single executable: runs another of its parts in this process. */
  var PLATFORM_RUN_PART: ((name: string) => void) | undefined;
}

/** Thrown by loading a command that is in another part of the single executable. See scripts/executable/bundle.ts. */
export class OtherPart {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}
