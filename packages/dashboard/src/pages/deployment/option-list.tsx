import type { DeploymentOption } from '@ropewalk/contract';
import { EyeOff } from 'lucide-react';
import { Badge } from '../../ui/badge.tsx';
import { Section } from '../../ui/page.tsx';
import { byGroup, isSecret, sourceText, valueText } from './options.ts';

/** Options by their groups, each with its value, the value's source, and how to set it. */
export function OptionList({ options }: { options: readonly DeploymentOption[] }) {
  return byGroup(options).map(([group, members]) => (
    <Section key={group} title={group} flush>
      <dl>
        {members.map((option) => (
          <OptionRow key={option.flag || option.name} option={option} />
        ))}
      </dl>
    </Section>
  ));
}

function OptionRow({ option }: { option: DeploymentOption }) {
  const source = sourceText(option);
  return (
    <div className="grid gap-x-6 gap-y-2 border-line border-b px-4 py-3 last:border-b-0 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
      <dt className="min-w-0">
        <div className="font-medium">{option.name}</div>
        <div className="mt-0.5 text-muted text-sm">{option.description}</div>
        <div className="mt-1.5 flex flex-wrap gap-x-3 gap-y-0.5 break-all font-mono text-faint text-xs">
          {option.flag && <span>--{option.flag}</span>}
          {option.env && <span>{option.env}</span>}
        </div>
      </dt>
      <dd className="flex min-w-0 flex-col items-start gap-1.5">
        <OptionValue option={option} />
        {source ? <Badge tone="accent">Set by {source}</Badge> : <Badge>Default</Badge>}
      </dd>
    </div>
  );
}

function OptionValue({ option }: { option: DeploymentOption }) {
  if (isSecret(option) && sourceText(option)) {
    return (
      <span className="flex items-center gap-1.5 text-muted">
        <EyeOff size={14} aria-hidden="true" />
        Set, and hidden
      </span>
    );
  }
  const text = valueText(option);
  if (text === undefined) return <span className="text-faint">Not set</span>;
  return <code className="max-w-full whitespace-pre-wrap break-all font-mono text-sm">{text}</code>;
}
