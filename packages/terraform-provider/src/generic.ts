import { ownValue } from '@ropewalk/kit/own-value';
import type { Diagnostics, Path } from './diagnostics.ts';
import { type Block, nested } from './schema.ts';
import { canonical, isObj, isUnknown, type Obj, UNKNOWN, type Value } from './value.ts';

/** Maps every nested block of one kind and keeps the container's form. */
function mapBlocks(value: Value | undefined, each: (block: Obj, index: number) => Value): Value {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value.map((item, i) => (isObj(item) ? each(item, i) : item)) : value;
}

/**
 * Reduces an object to exactly the block's attributes (absent ones become null), so that state of another schema
 * version fits.
 */
export function conform(block: Block, raw: Obj): Obj {
  const out: Obj = {};
  for (const name of Object.keys(block.attributes)) out[name] = raw[name] ?? null;
  for (const [name, inner] of nested(block)) out[name] = mapBlocks(raw[name], (b) => conform(inner.block, b));
  return out;
}

/**
 * Replaces nulls with the schema's defaults. With `markComputed`, values that only the provider can compute become
 * unknown.
 */
export function withDefaults(block: Block, raw: Obj, markComputed: boolean): Obj {
  const out: Obj = {};
  for (const [name, attribute] of Object.entries(block.attributes)) {
    const value = raw[name] ?? null;
    if (value !== null) out[name] = value;
    else if (attribute.default !== undefined) out[name] = attribute.default;
    else out[name] = attribute.computed && markComputed ? UNKNOWN : null;
  }
  for (const [name, inner] of nested(block)) {
    const list = mapBlocks(raw[name], (b) => withDefaults(inner.block, b, markComputed));
    out[name] = inner.computed && markComputed && Array.isArray(list) && list.length === 0 ? UNKNOWN : list;
  }
  return out;
}

/**
 * Checks each known value against its own rule. Elements of a set have no address in Terraform, so errors name the set.
 */
export function checkValues(block: Block, value: Obj, diagnostics: Diagnostics, path: Path = []): void {
  for (const [name, attribute] of Object.entries(block.attributes)) {
    const given = value[name] ?? null;
    if (given === null && attribute.required)
      diagnostics.error([...path, name], 'Missing required argument', `${name} is required and must not be null.`);
    if (given !== null && attribute.computed && !attribute.optional)
      diagnostics.error([...path, name], 'Read-only argument', `${name} is computed by the provider. Remove it.`);
    if (given === null || isUnknown(given) || attribute.check === undefined) continue;
    const said = attribute.check(given);
    if (said !== undefined) diagnostics.error([...path, name], `Invalid ${name}`, `${name}: ${said}.`);
  }
  for (const [name, inner] of nested(block)) {
    const list = value[name];
    if (!Array.isArray(list)) continue;
    list.forEach((item, i) => {
      const at = inner.nesting === 'list' ? [...path, name, i] : [...path, name];
      if (isObj(item)) checkValues(inner.block, item, diagnostics, at);
    });
  }
}

/** Adds warnings about attributes and blocks that are deprecated. */
export function warnDeprecated(block: Block, value: Obj, diagnostics: Diagnostics): void {
  for (const [name, { deprecated }] of Object.entries(block.attributes))
    if (deprecated !== undefined && (value[name] ?? null) !== null)
      diagnostics.warning([name], 'Argument is deprecated', `${name} is deprecated: ${deprecated}`);
  for (const [name, inner] of nested(block)) {
    const list = value[name];
    if (inner.block.deprecated !== undefined && Array.isArray(list) && list.length > 0)
      diagnostics.warning([], 'Argument is deprecated', `${name} is deprecated: ${inner.block.deprecated}`);
  }
}

const EMPTY: Record<string, Value> = { string: '', number: 0, bool: false };

/** Removes a map's null entries. Returns null if none are left. */
function mapEntries(map: Obj): Obj | null {
  const entries = Object.entries(map).filter(([, value]) => value !== null);
  return entries.length > 0 ? Object.fromEntries(entries) : null;
}

/**
 * Converts values to the forms that templates written for upstream's provider rely on: an attribute left out in a block
 * is empty instead of null (`"${option.icon}"` works). A map has no null entries, and a map without entries is null.
 */
export function publishedForms(block: Block, value: Obj, inner = false): Obj {
  const out: Obj = { ...value };
  for (const [name, { type, computed, required }] of Object.entries(block.attributes)) {
    const given = value[name] ?? null;
    if (Array.isArray(type) && type[0] === 'map' && isObj(given)) out[name] = mapEntries(given);
    else if (inner && given === null && !computed && !required) out[name] = ownValue(EMPTY, String(type)) ?? null;
  }
  for (const [name, { block: below }] of nested(block))
    if (Array.isArray(value[name])) out[name] = mapBlocks(value[name], (b) => publishedForms(below, b, true));
  return out;
}

/**
 * Converts a data source the same way. Here an empty text or list of blocks at the top level is null unless the
 * provider set it.
 */
export function publishedData(block: Block, value: Obj): Obj {
  const out = publishedForms(block, value);
  for (const [name, { computed }] of Object.entries(block.attributes))
    if (!computed && out[name] === '') out[name] = null;
  for (const [name, { computed }] of nested(block))
    if (!computed && Array.isArray(out[name]) && out[name].length === 0) out[name] = null;
  return out;
}

/**
 * Returns the top-level names whose configuration changed. Computed attributes without configuration do not count.
 * Forms in which another version or provider stored the same value do not count either (see publishedForms).
 */
export function changed(block: Block, prior: Obj, planned: Obj): string[] {
  const [before, after] = [publishedForms(block, prior), publishedForms(block, planned)];
  const out: string[] = [];
  for (const [name, attribute] of Object.entries(block.attributes)) {
    if (attribute.computed && !attribute.optional) continue;
    if (canonical(before[name] ?? null) !== canonical(after[name] ?? null)) out.push(name);
  }
  for (const [name, inner] of nested(block)) {
    if (inner.computed && Array.isArray(after[name]) && after[name].length === 0) continue;
    const forms = [before, after].map((side) => {
      const list = side[name] ?? [];
      if (!Array.isArray(list)) return canonical(list);
      const items = list.map((item) => (isObj(item) ? canonical(configured(inner.block, item)) : canonical(item)));
      return (inner.nesting === 'set' ? items.sort() : items).join('\n');
    });
    if (forms[0] !== forms[1]) out.push(name);
  }
  return out;
}

function configured(block: Block, value: Obj): Obj {
  const out: Obj = {};
  for (const [name, attribute] of Object.entries(block.attributes))
    if (!attribute.computed || attribute.optional) out[name] = value[name] ?? null;
  for (const [name, inner] of nested(block)) out[name] = mapBlocks(value[name], (b) => configured(inner.block, b));
  return out;
}

/** Replaces unknown values with null: a state must not contain them. */
export function settle(value: Value): Value {
  if (isUnknown(value)) return null;
  if (Array.isArray(value)) return value.map(settle);
  if (isObj(value)) return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, settle(v)]));
  return value;
}
