import type { WorkspaceResource } from '@ropewalk/contract';
import { Box, Eye, EyeOff } from 'lucide-react';
import { useState } from 'react';
import { Avatar } from '../../../ui/avatar.tsx';
import { IconButton } from '../../../ui/button.tsx';
import { CopyButton } from '../../../ui/copy.tsx';
import { Section } from '../../../ui/page.tsx';

/** The resources of a build, with the template's metadata. */
export function Resources({ resources, dailyCost }: { resources: readonly WorkspaceResource[]; dailyCost: number }) {
  const shown = resources.filter((resource) => !resource.hide);
  if (shown.length === 0) return null;
  return (
    <Section title="Resources" description={dailyCost > 0 && `${dailyCost.toLocaleString()} credits a day`} flush>
      <ul className="divide-y divide-line">
        {shown.map((resource) => (
          <li key={resource.id} className="flex flex-wrap gap-x-6 gap-y-2 px-4 py-3">
            <div className="flex min-w-0 flex-1 basis-52 items-start gap-3">
              {resource.icon ? (
                <Avatar name={resource.type} src={resource.icon} size={18} square />
              ) : (
                <Box size={17} aria-hidden="true" className="mt-0.5 shrink-0 text-faint" />
              )}
              <div className="min-w-0">
                <div className="wrap-anywhere font-medium">{resource.name}</div>
                <div className="wrap-anywhere text-muted text-sm">{resource.type}</div>
              </div>
            </div>
            <dl className="flex min-w-0 flex-1 basis-64 flex-col gap-1">
              {(resource.metadata ?? []).map((entry) => (
                <div key={entry.key} className="flex min-w-0 items-center gap-3">
                  <dt className="w-28 shrink-0 truncate text-muted text-sm">{entry.key}</dt>
                  <dd className="flex min-w-0 items-center gap-1">
                    {entry.sensitive ? (
                      <Secret name={entry.key} value={entry.value} />
                    ) : (
                      <span className="min-w-0 wrap-anywhere">{entry.value}</span>
                    )}
                  </dd>
                </div>
              ))}
              {resource.daily_cost > 0 && (
                <div className="flex gap-3">
                  <dt className="w-28 shrink-0 text-muted text-sm">Daily cost</dt>
                  <dd>{resource.daily_cost.toLocaleString()} credits</dd>
                </div>
              )}
            </dl>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Secret({ name, value }: { name: string; value: string }) {
  const [shown, setShown] = useState(false);
  return (
    <>
      <span className="min-w-0 break-all font-mono text-sm">{shown ? value : '••••••••'}</span>
      <IconButton
        icon={shown ? EyeOff : Eye}
        size="sm"
        label={shown ? `Hide ${name}` : `Show ${name}`}
        onClick={() => setShown(!shown)}
      />
      <CopyButton text={value} label={`Copy ${name}`} />
    </>
  );
}
