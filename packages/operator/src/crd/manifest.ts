import type { TSchema } from 'typebox';
import type { Resource } from '../kube/types.ts';

export interface CustomResource extends Resource {
  description: string;
  spec: TSchema;
  status: TSchema;
  columns: readonly { name: string; type: string; jsonPath: string; priority?: number }[];
  scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath: string };
}

/** Names become labels (63 characters) and parts of names of pods. */
const MAX_NAME = 50;

/** The CustomResourceDefinition of a resource. */
export function manifestOf({
  group,
  version,
  kind,
  plural,
  description,
  spec,
  status,
  columns,
  scale,
}: CustomResource) {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), categories: ['coder'] },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {}, ...(scale ? { scale } : {}) },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description,
              required: ['spec'],
              'x-kubernetes-validations': [
                {
                  rule: `self.metadata.name.size() <= ${MAX_NAME}`,
                  message: `the name must have at most ${MAX_NAME} characters`,
                },
              ],
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                spec: published(spec),
                status: published(status),
              },
            },
          },
        },
      ],
    },
  };
}

/** The JSON of a schema. A field with a default is not required of the person who writes the object. */
function published(schema: TSchema): object {
  return JSON.parse(JSON.stringify(schema), (_, part) => {
    if (!Array.isArray(part?.required) || typeof part.properties !== 'object') return part;
    const { required, ...rest } = part as { required: string[]; properties: Record<string, { default?: unknown }> };
    const left = required.filter((name) => rest.properties[name]?.default === undefined);
    return left.length > 0 ? { ...rest, required: left } : rest;
  }) as object;
}
