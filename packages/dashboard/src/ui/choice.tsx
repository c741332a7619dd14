import { RadioGroup as RadixRadio, Switch as RadixSwitch } from 'radix-ui';
import { type ReactNode, useId } from 'react';
import { useField } from './field.tsx';

export function Switch({
  checked,
  onChange,
  label,
  disabled = false,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  /** Its name, when no field around it has one. */
  label?: string;
  disabled?: boolean;
}) {
  return (
    <RadixSwitch.Root
      {...useField()}
      aria-label={label}
      checked={checked}
      disabled={disabled}
      onCheckedChange={onChange}
      className="relative h-5 w-9 shrink-0 rounded-full border border-field bg-active transition-colors disabled:opacity-55 data-[state=checked]:border-accent data-[state=checked]:bg-accent"
    >
      <RadixSwitch.Thumb className="block size-4 translate-x-px rounded-full bg-white shadow transition-transform data-[state=checked]:translate-x-[17px]" />
    </RadixSwitch.Root>
  );
}

export interface Option {
  value: string;
  label: ReactNode;
  help?: ReactNode;
  icon?: ReactNode;
  disabled?: boolean;
}

/** One of a few options, all visible. */
export function RadioGroup({
  value,
  onChange,
  options,
  label,
  disabled = false,
}: {
  value: string;
  onChange: (value: string) => void;
  options: readonly Option[];
  label?: string;
  disabled?: boolean;
}) {
  const id = useId();
  return (
    <RadixRadio.Root
      {...useField()}
      aria-label={label}
      value={value}
      disabled={disabled}
      onValueChange={onChange}
      className="flex flex-col gap-2"
    >
      {options.map((option, at) => (
        <div key={option.value} className="flex items-start gap-2">
          <RadixRadio.Item
            id={`${id}-${at}`}
            value={option.value}
            disabled={option.disabled ?? false}
            className="mt-0.5 flex size-4 shrink-0 items-center justify-center rounded-full border border-field bg-surface disabled:opacity-55 data-[state=checked]:border-accent"
          >
            <RadixRadio.Indicator className="size-2 rounded-full bg-accent" />
          </RadixRadio.Item>
          {option.icon}
          <div className="min-w-0">
            <label htmlFor={`${id}-${at}`}>{option.label}</label>
            {option.help && <div className="text-muted text-sm">{option.help}</div>}
          </div>
        </div>
      ))}
    </RadixRadio.Root>
  );
}
