import type { TemplateVersionParameter } from '@platform/contract';
import { SlidersHorizontal } from 'lucide-react';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge } from '../../../ui/badge.tsx';
import { Markdown } from '../../../ui/markdown.tsx';
import { EmptyState } from '../../../ui/states.tsx';

const TYPE: Record<TemplateVersionParameter['type'], string> = {
  string: 'Text',
  number: 'Number',
  bool: 'Yes or no',
  'list(string)': 'List',
};

/** What the form asks people who create a workspace. */
export function ParameterList({ parameters }: { parameters: readonly TemplateVersionParameter[] }) {
  if (parameters.length === 0) {
    return (
      <EmptyState icon={SlidersHorizontal} title="No parameters">
        People are asked for nothing but a name. Add a data "coder_parameter" to ask for more.
      </EmptyState>
    );
  }
  return (
    <ol>
      {parameters.map((parameter) => (
        <li key={parameter.name} className="flex flex-col gap-1 border-line border-b py-3 first:pt-0 last:border-b-0">
          <div className="flex flex-wrap items-center gap-2">
            {parameter.icon && <Avatar name={parameter.name} src={parameter.icon} size={18} square />}
            <span className="font-medium">{parameter.display_name || parameter.name}</span>
            {parameter.display_name && <span className="font-mono text-muted text-sm">{parameter.name}</span>}
            <Badge>{TYPE[parameter.type]}</Badge>
            {parameter.required && <Badge tone="accent">Required</Badge>}
            {!parameter.mutable && <Badge>Fixed after creation</Badge>}
            {parameter.ephemeral && <Badge>For one build</Badge>}
          </div>
          {parameter.description && (
            <div className="text-muted text-sm">
              <Markdown text={parameter.description} inline />
            </div>
          )}
          {(parameter.options ?? []).length > 0 && (
            <div className="text-sm">
              <span className="text-muted">Options: </span>
              {parameter.options!.map(({ name }) => name).join(', ')}
            </div>
          )}
          {parameter.default_value !== '' && (
            <div className="break-all text-sm">
              <span className="text-muted">Default: </span>
              <span className="font-mono">{parameter.default_value}</span>
            </div>
          )}
        </li>
      ))}
    </ol>
  );
}
