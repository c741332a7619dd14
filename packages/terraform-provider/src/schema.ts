import type { TypeSpec, Value } from './value.ts';

/** Says what is wrong with a known, non-null value, or nothing. */
export type Check = (value: Value) => string | undefined;

export interface Attribute {
  type: TypeSpec;
  description: string;
  required?: true;
  optional?: true;
  computed?: true;
  sensitive?: true;
  /** What to use instead. */
  deprecated?: string;
  /** Stands in for a null in the configuration. */
  default?: Value;
  check?: Check;
}

export interface NestedBlock {
  nesting: 'list' | 'set';
  block: Block;
  minItems?: number;
  maxItems?: number;
  /** Without one in the configuration the provider makes one. */
  computed?: true;
}

export interface Block {
  attributes: Record<string, Attribute>;
  blocks?: Record<string, NestedBlock>;
  /** What to use instead. */
  deprecated?: string;
}

export interface Schema extends Block {
  /** The state's schema version, as published. */
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
/** The `id` that most types carry: theirs to make, though a configuration may name one. */
export const idAttribute: Attribute = {
  type: 'string',
  description: 'Identity, made by the provider.',
  optional: true,
  computed: true,
};

/** Block types of one block as entries. */
export const nested = (block: Block): [string, NestedBlock][] => Object.entries(block.blocks ?? {});
