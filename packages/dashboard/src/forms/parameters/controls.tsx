import { stringList } from '@ropewalk/rules/parameter';
import { X } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useState } from 'react';
import { Checkbox } from '../../ui/checkbox.tsx';
import { type Option, RadioGroup, Switch } from '../../ui/choice.tsx';
import { cx } from '../../ui/classes.ts';
import { Input, TextArea, useField } from '../../ui/field.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { Select } from '../../ui/select.tsx';
import { Slider } from '../../ui/slider.tsx';
import type { ParameterState } from './state.ts';

interface ControlProps {
  parameter: ParameterState;
  onChange: (value: string) => void;
}

/** An icon that a template's author chose. */
export function TemplateIcon({ src, size = 16 }: { src: string; size?: number }) {
  return src ? <img src={src} alt="" width={size} height={size} className="mt-0.5 shrink-0 object-contain" /> : null;
}

export const isDisabled = ({ locked, styling }: ParameterState): boolean =>
  locked !== undefined || styling?.disabled === true;

/** Select does not accept an empty value, but a template may. */
const keyOf = (value: string) => `=${value}`;

function optionsOf(parameter: ParameterState, encode: (value: string) => string = (value) => value): Option[] {
  return parameter.options.map((option) => ({
    value: encode(option.value),
    label: option.name,
    help: option.description ? <Markdown text={option.description} inline /> : undefined,
    icon: option.icon ? <TemplateIcon src={option.icon} /> : undefined,
  }));
}

/** The control of a parameter's form type. */
export function ParameterControl({ parameter, onChange }: ControlProps): ReactNode {
  const { formType, value, label, styling } = parameter;
  const disabled = isDisabled(parameter);
  switch (formType) {
    case 'radio':
      return (
        <RadioGroup
          label={label}
          value={value}
          onChange={onChange}
          options={optionsOf(parameter)}
          disabled={disabled}
        />
      );
    case 'dropdown':
      return (
        <Select
          value={keyOf(value)}
          onChange={(key) => onChange(key.slice(1))}
          options={optionsOf(parameter, keyOf)}
          placeholder={styling?.placeholder}
          disabled={disabled}
        />
      );
    case 'multi-select':
      return <MultiSelect parameter={parameter} onChange={onChange} />;
    case 'tag-select':
      return <TagSelect parameter={parameter} onChange={onChange} />;
    case 'slider':
      return <SliderControl parameter={parameter} onChange={onChange} />;
    case 'switch':
      return (
        <Switch
          label={styling?.label || label}
          checked={value === 'true'}
          onChange={(checked) => onChange(String(checked))}
          disabled={disabled}
        />
      );
    case 'textarea':
      return (
        <TextArea
          value={value}
          disabled={disabled}
          rows={Math.min(12, Math.max(3, value.split('\n').length))}
          placeholder={styling?.placeholder}
          className={cx('font-mono text-sm', styling?.masked && '[-webkit-text-security:disc]')}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    default:
      return (
        <Input
          value={value}
          disabled={disabled}
          inputMode={parameter.type === 'number' ? 'numeric' : undefined}
          type={styling?.masked ? 'password' : 'text'}
          placeholder={
            styling?.placeholder ?? (parameter.later ? 'Computed when the workspace is built' : parameter.defaultValue)
          }
          onChange={(event) => onChange(event.target.value)}
        />
      );
  }
}

function SliderControl({ parameter, onChange }: ControlProps) {
  const { min = 0, max = 100, value } = parameter;
  const field = useField();
  return (
    <div className="flex items-center gap-3">
      <Slider
        {...field}
        min={min}
        max={max}
        // a person may type anything in the field next to it
        value={value === '' || Number.isNaN(Number(value)) ? min : Number(value)}
        disabled={isDisabled(parameter)}
        onChange={(event) => onChange(event.target.value)}
        className="min-w-0 flex-1"
      />
      <Input
        id={`${field.id}-number`}
        aria-label={`${parameter.label}, as a number`}
        inputMode="numeric"
        value={value}
        disabled={isDisabled(parameter)}
        onChange={(event) => onChange(event.target.value)}
        className="max-w-20 text-right tabular-nums"
      />
    </div>
  );
}

function MultiSelect({ parameter, onChange }: ControlProps) {
  const chosen = stringList(parameter.value) ?? [];
  return (
    <div {...useField()} role="group" aria-label={parameter.label} className="flex flex-col gap-2">
      {parameter.options.map((option) => (
        <div key={option.value} className="flex items-start gap-2">
          <Checkbox
            checked={chosen.includes(option.value)}
            disabled={isDisabled(parameter)}
            label={
              <span className="inline-flex items-start gap-2">
                <TemplateIcon src={option.icon} />
                {option.name}
              </span>
            }
            help={option.description ? <Markdown text={option.description} inline /> : undefined}
            onChange={(checked) =>
              onChange(
                JSON.stringify(
                  // in the template's order
                  parameter.options
                    .map(({ value }) => value)
                    .filter((value) => (value === option.value ? checked : chosen.includes(value))),
                ),
              )
            }
          />
        </div>
      ))}
    </div>
  );
}

function TagSelect({ parameter, onChange }: ControlProps) {
  const [typed, setTyped] = useState('');
  const tags = stringList(parameter.value) ?? [];
  const disabled = isDisabled(parameter);
  const set = (next: readonly string[]) => onChange(JSON.stringify(next));
  const add = () => {
    const tag = typed.trim();
    setTyped('');
    if (tag !== '' && !tags.includes(tag)) set([...tags, tag]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' || event.key === ',') {
      event.preventDefault();
      add();
    } else if (event.key === 'Backspace' && typed === '' && tags.length > 0) set(tags.slice(0, -1));
  };
  return (
    <div className="flex flex-col gap-2">
      {tags.length > 0 && (
        <ul aria-label={parameter.label} className="flex flex-wrap gap-1.5">
          {tags.map((tag) => (
            <li
              key={tag}
              className="inline-flex h-6 max-w-full items-center gap-1 rounded-sm border border-line bg-sunken pr-0.5 pl-2 text-sm"
            >
              <span className="truncate">{tag}</span>
              <button
                type="button"
                disabled={disabled}
                aria-label={`Remove ${tag}`}
                className="flex size-5 items-center justify-center rounded-xs text-muted hover:bg-hover hover:text-text"
                onClick={() => set(tags.filter((other) => other !== tag))}
              >
                <X size={13} aria-hidden="true" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <Input
        value={typed}
        disabled={disabled}
        placeholder={parameter.styling?.placeholder ?? 'Type a value and press Enter'}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={onKeyDown}
        onBlur={add}
      />
    </div>
  );
}
