import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  AttributePathSchema,
  Diagnostic_Severity,
  DiagnosticSchema,
  DynamicValue,
  DynamicValueSchema,
  Schema_BlockSchema,
  Schema_NestedBlock_NestingMode,
  SchemaSchema,
} from '@ropewalk/wire/proto/tfplugin5';
import type { Diagnostic, Path } from './diagnostics.ts';
import { type Block, nested, type Schema } from './schema.ts';
import { decodeMsgpack, encodeMsgpack, isObj, type Obj, type Value } from './value.ts';

const SEVERITY = { error: 1, warning: 2 } satisfies Record<string, Diagnostic_Severity>;
const NESTING = { list: 2, set: 3 } satisfies Record<string, Schema_NestedBlock_NestingMode>;
const utf8 = new TextEncoder();

/** Decodes the object of a dynamic value. Null if it is null or absent. */
export function undynamic(value: DynamicValue | undefined): Obj | null {
  if (!value) return null;
  const decoded: Value =
    value.json.length > 0 ? (JSON.parse(new TextDecoder().decode(value.json)) as Value) : decodeMsgpack(value.msgpack);
  return isObj(decoded) ? decoded : null;
}

export const dynamic = (value: Obj | null): MessageInitShape<typeof DynamicValueSchema> => ({
  msgpack: encodeMsgpack(value),
});

export function toPath(path: Path): MessageInitShape<typeof AttributePathSchema> | undefined {
  if (path.length === 0) return undefined;
  return {
    steps: path.map((step) => ({
      selector:
        typeof step === 'number'
          ? { case: 'elementKeyInt' as const, value: BigInt(step) }
          : { case: 'attributeName' as const, value: step },
    })),
  };
}

export function toDiagnostics(list: readonly Diagnostic[]): MessageInitShape<typeof DiagnosticSchema>[] {
  return list.map((d) => {
    const attribute = toPath(d.path);
    return {
      severity: SEVERITY[d.severity],
      summary: d.summary,
      detail: d.detail,
      ...(attribute ? { attribute } : {}),
    };
  });
}

function blockMessage(block: Block): MessageInitShape<typeof Schema_BlockSchema> {
  return {
    attributes: Object.entries(block.attributes).map(([name, a]) => ({
      name,
      type: utf8.encode(JSON.stringify(a.type)),
      description: a.description,
      required: a.required ?? false,
      optional: a.optional ?? false,
      computed: a.computed ?? false,
      sensitive: a.sensitive ?? false,
      deprecated: a.deprecated !== undefined,
    })),
    blockTypes: nested(block).map(([typeName, inner]) => ({
      typeName,
      block: blockMessage(inner.block),
      nesting: NESTING[inner.nesting],
      minItems: BigInt(inner.minItems ?? 0),
      maxItems: BigInt(inner.maxItems ?? 0),
    })),
    deprecated: block.deprecated !== undefined,
  };
}

export function schemaMessage(schema: Schema): MessageInitShape<typeof SchemaSchema> {
  return {
    version: BigInt(schema.version),
    block: { ...blockMessage(schema), description: schema.description },
  };
}
