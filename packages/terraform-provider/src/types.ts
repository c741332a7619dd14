import type { Logger } from '@ropewalk/kit';
import type { Diagnostics } from './diagnostics.ts';
import type { Schema } from './schema.ts';
import type { Obj } from './value.ts';

/** What a handler may use: the job's CODER_* variables and the deployment's address. Nothing else of the process. */
export interface Context {
  readonly env: Readonly<Record<string, string>>;
  /** The access URL: the provider block's `url`, else CODER_AGENT_URL, else empty. */
  readonly url: string;
  readonly log: Logger;
  readonly diagnostics: Diagnostics;
}

/** A managed resource. None of them are updated in place: any difference in the configuration replaces the resource. */
export interface ResourceType {
  schema: Schema;
  /**
   * Checks across attributes. The schema checks single values. Parts of the configuration may be unknown. `written` has
   * no defaults: null means that the author omitted the attribute.
   */
  validate?(config: Obj, ctx: Context, written: Obj): void;
  /** Adjusts the planned state: sets computed attributes that are known before the apply. */
  plan?(planned: Obj, config: Obj, ctx: Context): void;
  /** Refreshes the stored state in place. */
  read?(state: Obj, ctx: Context): void;
  /** Sets computed values (null or unknown there) in place. Default: a new `id`. */
  create?(state: Obj, ctx: Context, config: Obj): void;
}

/** A data source: maps the fully known configuration with defaults to the whole value. */
export interface DataSource {
  schema: Schema;
  validate?(config: Obj, ctx: Context, written: Obj): void;
  read(config: Obj, ctx: Context): Obj;
}
