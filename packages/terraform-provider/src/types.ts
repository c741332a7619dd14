import type { Logger } from '@platform/kit';
import type { Diagnostics } from './diagnostics.ts';
import type { Schema } from './schema.ts';
import type { Obj } from './value.ts';

/** What a handler may know: the job's CODER_* variables and the deployment's address. Nothing else of the process. */
export interface Context {
  readonly env: Readonly<Record<string, string>>;
  /** The access URL: the provider block's `url`, else CODER_AGENT_URL, else empty. */
  readonly url: string;
  readonly log: Logger;
  readonly diagnostics: Diagnostics;
}

/**
 * A managed resource. All of them are records made anew rather than changed: any difference in the configuration
 * replaces the resource, so there is no update.
 */
export interface ResourceType {
  schema: Schema;
  /**
   * Checks across attributes; single values are checked by the schema. Parts of the configuration may be unknown.
   * `written` is without defaults: null is what the author left out.
   */
  validate?(config: Obj, ctx: Context, written: Obj): void;
  /** Adjusts the planned state: what can be known of computed attributes before the apply. */
  plan?(planned: Obj, config: Obj, ctx: Context): void;
  /** Refreshes the stored state in place. */
  read?(state: Obj, ctx: Context): void;
  /** Fills what is computed (null or unknown there) in place. Default: a fresh `id`. */
  create?(state: Obj, ctx: Context, config: Obj): void;
}

/** A data source: the configuration, wholly known and with defaults, goes in; the whole value comes out. */
export interface DataSource {
  schema: Schema;
  validate?(config: Obj, ctx: Context, written: Obj): void;
  read(config: Obj, ctx: Context): Obj;
}
