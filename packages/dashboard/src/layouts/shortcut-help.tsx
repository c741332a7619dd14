import { useState } from 'react';
import { useSitePermissions } from '../api/permissions.ts';
import { Checkbox } from '../ui/checkbox.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { PAGE_SHORTCUTS, plainKeysOn, setPlainKeys } from './shortcut-list.ts';

/** The sheet of all keyboard shortcuts. */
export default function ShortcutHelp({ onClose }: { onClose: () => void }) {
  const may = useSitePermissions();
  const [on, setOn] = useState(plainKeysOn);
  const pages = PAGE_SHORTCUTS.filter(({ needs }) => !needs || may[needs]);
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts">
      <div className="flex flex-col gap-5 pb-4">
        <Keys
          title="Everywhere"
          rows={[
            ['Search and commands', 'Ctrl K'],
            ['Find in this page', '/'],
            ['Keyboard shortcuts', '?'],
          ]}
        />
        <Keys title="Go to" rows={pages.map(({ name, keys }) => [name, keys] as const)} />
        <Checkbox
          checked={on}
          onChange={(checked) => {
            setPlainKeys(checked);
            setOn(checked);
          }}
          label="Shortcuts without Ctrl"
          help="Turn them off if you use speech input. The choice is for this browser."
        />
      </div>
    </Dialog>
  );
}

function Keys({ title, rows }: { title: string; rows: readonly (readonly [name: string, keys: string])[] }) {
  return (
    <section>
      <h3 className="mb-1 font-medium text-muted text-sm">{title}</h3>
      <dl>
        {rows.map(([name, keys]) => (
          <div key={name} className="flex items-center justify-between border-line border-b py-1.5 last:border-b-0">
            <dt>{name}</dt>
            <dd className="flex gap-1">
              {keys.split(' ').map((key) => (
                <kbd
                  key={key}
                  className="min-w-6 rounded-sm border border-line-strong bg-sunken px-1.5 text-center font-mono text-xs leading-5"
                >
                  {key}
                </kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
