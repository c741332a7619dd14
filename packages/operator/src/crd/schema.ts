// The fields of the custom resources, as TypeBox schemas: the TypeScript types, the manifests and the reference page are
// derived from them. Only what Kubernetes calls a structural schema is used here.
import { type TSchema, Type } from 'typebox';

/** A rule in CEL, Kubernetes' expression language, and what a person reads when it does not hold. */
export interface Rule {
  rule: string;
  message: string;
}

interface More {
  default?: unknown;
  enum?: readonly string[];
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  pattern?: string;
  format?: string;
  rules?: readonly Rule[];
}

function settings(description: string, { rules, ...more }: More) {
  return { description, ...more, ...(rules ? { 'x-kubernetes-validations': rules } : {}) };
}

export const text = (description: string, more: More = {}) =>
  Type.Unsafe<string>({ type: 'string', ...settings(description, more) });

export const choice = <const V extends string>(description: string, values: readonly V[], more: More = {}) =>
  Type.Unsafe<V>({ type: 'string', enum: values, ...settings(description, more) });

/** A point in time, in RFC 3339. */
export const time = (description: string) => text(description, { format: 'date-time' });

export const whole = (description: string, more: More = {}) =>
  Type.Unsafe<number>({ type: 'integer', format: 'int64', ...settings(description, more) });

export const flag = (description: string, more: More = {}) =>
  Type.Unsafe<boolean>({ type: 'boolean', ...settings(description, more) });

export const texts = (description: string, more: More = {}) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    ...settings(description, more),
  });

export const list = <S extends TSchema>(description: string, items: S, more: More = {}) =>
  Type.Array(items, settings(description, more));

export const object = <P extends Record<string, TSchema>>(description: string, properties: P, more: More = {}) =>
  Type.Object(properties, settings(description, more));

export const optional = Type.Optional;

/**
 * A field of a pod in Kubernetes' own form, which the API server checks when the operator applies the pod's template.
 * Schemas of these would be longer than the rest of the resource.
 */
export const podField = <T>(description: string) =>
  Type.Unsafe<T>({ type: 'object', description, 'x-kubernetes-preserve-unknown-fields': true });

/** A list of fields of a pod. */
export const podFields = <T>(description: string) =>
  Type.Unsafe<T[]>({
    type: 'array',
    description,
    items: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  });

export const conditions = Type.Unsafe<import('../kube/types.ts').Condition[]>({
  type: 'array',
  description: 'Conditions of this object.',
  items: {
    type: 'object',
    required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
    properties: {
      type: { type: 'string' },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      reason: { type: 'string' },
      message: { type: 'string' },
      lastTransitionTime: { type: 'string', format: 'date-time' },
      observedGeneration: { type: 'integer', format: 'int64' },
    },
  },
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
});

export const secretKey = (description: string) =>
  object(description, {
    name: text('Name of the Secret.', { minLength: 1 }),
    key: optional(text('Key in the Secret.')),
  });
