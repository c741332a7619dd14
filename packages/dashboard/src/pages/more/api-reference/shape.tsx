import { ChevronRight } from 'lucide-react';
import { useState } from 'react';
import { cx } from '../../../ui/classes.ts';
import { type ApiDocument, resolve, type Schema, typeText, valuesOf } from './document.ts';

/** The fields of a shape. Those with fields of their own open on demand, so that shapes that contain themselves end. */
export function Shape({ document, schema }: { document: ApiDocument; schema: Schema }) {
  const fields = fieldsOf(document, schema);
  if (fields.length === 0) return <code className="font-mono text-sm">{typeText(document, schema)}</code>;
  return (
    <ul className="flex flex-col">
      {fields.map((field) => (
        <FieldRow key={field.name} document={document} {...field} />
      ))}
    </ul>
  );
}

interface FieldOfShape {
  name: string;
  schema: Schema;
  required: boolean;
}

function fieldsOf(document: ApiDocument, schema: Schema): FieldOfShape[] {
  const found = resolve(document, schema);
  const inner = found.type === 'array' ? found.items : found.properties ? undefined : valuesOf(found);
  if (inner) return fieldsOf(document, inner);
  return Object.entries(found.properties ?? {}).map(([name, each]) => ({
    name,
    schema: each,
    required: found.required?.includes(name) ?? false,
  }));
}

function FieldRow({ document, name, schema, required }: FieldOfShape & { document: ApiDocument }) {
  const [open, setOpen] = useState(false);
  const found = resolve(document, schema);
  const hasFields = fieldsOf(document, schema).length > 0;
  const text = (
    <>
      <code className="break-all font-medium font-mono text-sm">{name}</code>
      <code className="break-all font-mono text-muted text-xs">
        {typeText(document, schema)}
        {(found.nullable || schema.nullable) && ' or null'}
      </code>
      {!required && <span className="text-faint text-xs">optional</span>}
    </>
  );
  return (
    <li className="border-line border-b last:border-b-0">
      {hasFields ? (
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="flex w-full flex-wrap items-baseline gap-x-2 py-1.5 text-left hover:bg-hover"
        >
          <ChevronRight size={13} aria-hidden="true" className={cx('self-center text-muted', open && 'rotate-90')} />
          {text}
        </button>
      ) : (
        <div className="flex flex-wrap items-baseline gap-x-2 py-1.5 pl-[21px]">
          {text}
          {found.enum && (
            <span className="break-words font-mono text-faint text-xs">
              {found.enum.map((value) => JSON.stringify(value)).join(' ')}
            </span>
          )}
        </div>
      )}
      {found.description && <p className="pb-1.5 pl-[21px] text-muted text-sm">{found.description}</p>}
      {open && (
        <div className="mb-1.5 ml-1.5 border-line border-l pl-3">
          <Shape document={document} schema={schema} />
        </div>
      )}
    </li>
  );
}
