import { Plus, X } from 'lucide-react';
import { Button, IconButton } from './button.tsx';
import { cx } from './classes.ts';
import { Input } from './field.tsx';

/** Names with values, in a row. */
export function TagList({
  tags,
  missing = [],
  none = 'No tags',
}: {
  tags: readonly (readonly [name: string, value: string])[];
  /** Names of tags to mark as a problem. */
  missing?: readonly string[];
  none?: string;
}) {
  if (tags.length === 0) return <span className="text-faint text-sm">{none}</span>;
  return (
    <span className="flex min-w-0 flex-wrap gap-1">
      {tags.map(([name, value]) => (
        <span
          key={name}
          className={cx(
            'max-w-full break-all rounded-sm px-1.5 py-0.5 font-mono text-xs',
            missing.includes(name) ? 'bg-warn-soft text-warn' : 'bg-sunken text-muted',
          )}
        >
          {name}={value}
        </span>
      ))}
    </span>
  );
}

export type TagRow = readonly [name: string, value: string];

/** Edits names with values, a row for each. */
export function TagsEditor({
  rows,
  onChange,
}: {
  rows: readonly TagRow[];
  onChange: (rows: readonly TagRow[]) => void;
}) {
  const set = (at: number, row: TagRow) => onChange(rows.map((each, i) => (i === at ? row : each)));
  return (
    <div className="flex flex-col gap-2">
      {rows.map(([name, value], at) => (
        <div key={at} className="flex items-center gap-2">
          <Input
            aria-label={`Name of tag ${at + 1}`}
            placeholder="zone"
            value={name}
            onChange={(event) => set(at, [event.target.value, value])}
          />
          <span aria-hidden="true" className="text-muted">
            =
          </span>
          <Input
            aria-label={`Value of tag ${at + 1}`}
            placeholder="eu"
            value={value}
            onChange={(event) => set(at, [name, event.target.value])}
          />
          <IconButton
            icon={X}
            size="sm"
            label={`Remove tag ${at + 1}`}
            onClick={() => onChange(rows.filter((_, i) => i !== at))}
          />
        </div>
      ))}
      <div>
        <Button size="sm" icon={Plus} onClick={() => onChange([...rows, ['', '']])}>
          Add tag
        </Button>
      </div>
    </div>
  );
}
