import type { TypeSpec, Value } from './value.ts';

/** Returns what is wrong with a known, non-null value, or undefined. */
export type Check = (value: Value) => string | undefined;

export interface Attribute {
  type: TypeSpec;
  description: string;
  required?: true;
  optional?: true;
  computed?: true;
  sensitive?: true;
  /** The replacement, for the warning. */
  deprecated?: string;
  /** Replaces a null in the configuration. */
  default?: Value;
  check?: Check;
}

export interface NestedBlock {
  nesting: 'list' | 'set';
  block: Block;
  minItems?: number;
  maxItems?: number;
  /** Whether the provider computes the value if the configuration does not set it. */
  computed?: true;
}

export interface Block {
  attributes: Record<string, Attribute>;
  blocks?: Record<string, NestedBlock>;
  /** The replacement, for the warning. */
  deprecated?: string;
}

export interface Schema extends Block {
  /** The state's schema version, as in upstream. */
  version: number;
  description: string;
}

type More = Omit<Partial<Attribute>, 'type' | 'description'>;

export const required = (type: TypeSpec, description: string, more: More = {}): Attribute => ({
  type,
  description,
  required: true,
  ...more,
});
export const optional = (type: TypeSpec, description: string, more: More = {}): Attribute => ({
  type,
  description,
  optional: true,
  ...more,
});
export const computed = (type: TypeSpec, description: string, more: More = {}): Attribute => ({
  type,
  description,
  computed: true,
  ...more,
});
/** The `id` of most types: the provider creates it, though a configuration may set it. */
export const idAttribute: Attribute = {
  type: 'string',
  description: 'Id, created by the provider.',
  optional: true,
  computed: true,
};

/** The entries of a block's nested block types. */
export const nested = (block: Block): [string, NestedBlock][] => Object.entries(block.blocks ?? {});
