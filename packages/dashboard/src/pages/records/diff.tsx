import type { AuditDiff } from '@ropewalk/contract';
import { isEmpty, showValue } from './values.ts';

/** The fields that a change touched, with their old and new values. */
export function Diff({ diff }: { diff: AuditDiff }) {
  const fields = Object.entries(diff).sort(([a], [b]) => a.localeCompare(b));
  return (
    <div role="table" aria-label="Changed fields" className="overflow-hidden rounded-md border border-line bg-surface">
      <div role="row" className="hidden grid-cols-[12rem_1fr_1fr] border-line border-b text-muted text-sm sm:grid">
        {['Field', 'Before', 'After'].map((name) => (
          <div key={name} role="columnheader" className="px-3 py-1.5">
            {name}
          </div>
        ))}
      </div>
      {fields.map(([name, field]) => (
        <div key={name} role="row" className="grid border-line border-b last:border-b-0 sm:grid-cols-[12rem_1fr_1fr]">
          <div role="rowheader" className="min-w-0 break-words px-3 pt-2 font-mono text-sm sm:py-2">
            {name}
          </div>
          <Value side="-" className="bg-bad-soft text-bad" secret={field.secret} name={name} value={field.old} />
          <Value side="+" className="bg-good-soft text-good" secret={field.secret} name={name} value={field.new} />
        </div>
      ))}
    </div>
  );
}

function Value({
  side,
  className,
  secret,
  name,
  value,
}: {
  side: '-' | '+';
  className: string;
  secret: boolean;
  name: string;
  value: unknown;
}) {
  const empty = !secret && isEmpty(value);
  return (
    <div
      role="cell"
      className={`flex min-w-0 gap-2 whitespace-pre-wrap break-words px-3 py-2 font-mono text-sm ${empty ? 'text-muted' : className}`}
    >
      <span aria-hidden="true" className="select-none">
        {side}
      </span>
      <span className="min-w-0 break-all">{secret ? '••••••••' : empty ? 'nothing' : showValue(name, value)}</span>
    </div>
  );
}
