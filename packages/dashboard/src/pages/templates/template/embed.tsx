import type { TemplateVersionParameter } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { RadioGroup } from '../../../ui/choice.tsx';
import { CodeLine } from '../../../ui/copy.tsx';
import { Field, Input, NativeSelect } from '../../../ui/field.tsx';
import { Section, useTitle } from '../../../ui/page.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { nameOf, parametersQuery, useTemplate } from '../data.ts';
import { badgeCode } from './badge-code.ts';

/** Makes the "Open in Coder" badge, whose link opens the create form with values filled in. */
export default function TemplateEmbed() {
  const template = useTemplate();
  const parameters = useQuery(parametersQuery(template.active_version_id));
  const [mode, setMode] = useState<'manual' | 'auto'>('manual');
  const [name, setName] = useState('');
  const [values, setValues] = useState<Record<string, string>>({});
  useTitle('Embed', nameOf(template));
  const set = (parameter: string, value: string | undefined) =>
    setValues(({ [parameter]: _, ...rest }) => (value === undefined ? rest : { ...rest, [parameter]: value }));
  const link = `${location.origin}${paths.createWorkspace(template, {
    mode,
    ...(name ? { name } : {}),
    ...Object.fromEntries(Object.entries(values).map(([parameter, value]) => [`param.${parameter}`, value])),
  })}`;
  const { markdown, html } = badgeCode(location.origin, link);
  return (
    <div className="grid items-start gap-5 lg:grid-cols-2">
      <Section title="What the link fills in">
        <Field label="When somebody opens the link">
          <RadioGroup
            value={mode}
            onChange={(next) => setMode(next as typeof mode)}
            options={[
              { value: 'manual', label: 'Show the form', help: 'People look at the values and create the workspace.' },
              { value: 'auto', label: 'Create immediately', help: 'The workspace is created after people agree.' },
            ]}
          />
        </Field>
        <Field label="Workspace name" help="Empty: a name is suggested.">
          <Input value={name} onChange={(event) => setName(event.target.value)} />
        </Field>
        <QueryView query={parameters} loading={<SkeletonLines lines={4} />}>
          {(found) => (
            <>
              {found
                .filter(({ ephemeral }) => !ephemeral)
                .map((parameter) => (
                  <Prefilled
                    key={parameter.name}
                    parameter={parameter}
                    value={values[parameter.name]}
                    onChange={(value) => set(parameter.name, value)}
                  />
                ))}
            </>
          )}
        </QueryView>
      </Section>
      <Section title="Badge" description="Put it in a README or on a page. It opens this server.">
        <a href={link} target="_blank" rel="noreferrer" className="w-max">
          <img src="/open-in-coder.svg" alt="Open in Coder" width={133} height={28} />
        </a>
        <Code name="Markdown" code={markdown} />
        <Code name="HTML" code={html} />
        <Code name="Link" code={link} />
      </Section>
    </div>
  );
}

function Code({ name, code }: { name: string; code: string }) {
  return (
    <div className="flex flex-col gap-1.5">
      <div className="font-medium text-sm">{name}</div>
      <CodeLine code={code} label={`Copy ${name}`} wrap />
    </div>
  );
}

function Prefilled({
  parameter,
  value,
  onChange,
}: {
  parameter: TemplateVersionParameter;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  const options = parameter.options ?? [];
  const label = parameter.display_name || parameter.name;
  const one = parameter.type === 'bool' || (options.length > 0 && parameter.type !== 'list(string)');
  const choices =
    parameter.type === 'bool'
      ? [
          { name: 'Yes', value: 'true' },
          { name: 'No', value: 'false' },
        ]
      : options;
  return (
    <div className="flex flex-col gap-2 border-line border-t pt-4">
      <Checkbox
        checked={value !== undefined}
        onChange={(on) => onChange(on ? parameter.default_value || (one ? (choices[0]?.value ?? '') : '') : undefined)}
        label={<>Fill in {label}</>}
        help={parameter.description_plaintext}
      />
      {value !== undefined && (
        <div className="pl-6">
          {one ? (
            <NativeSelect aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
              {choices.map((option) => (
                <option key={option.value} value={option.value}>
                  {option.name}
                </option>
              ))}
            </NativeSelect>
          ) : (
            <Input
              aria-label={label}
              type={parameter.type === 'number' ? 'number' : 'text'}
              value={value}
              onChange={(event) => onChange(event.target.value)}
            />
          )}
        </div>
      )}
    </div>
  );
}
