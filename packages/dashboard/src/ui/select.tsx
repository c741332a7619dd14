import { Check, ChevronDown } from 'lucide-react';
import { Select as Radix } from 'radix-ui';
import type { ComponentProps } from 'react';
import type { Option } from './choice.tsx';
import { cx } from './classes.ts';
import { useField } from './field.tsx';

/** One of several options, which may have icons and explanations. */
export function Select({
  value,
  onChange,
  options,
  placeholder = 'Choose…',
  label,
  disabled = false,
  ...rest
}: {
  value: string;
  onChange: (value: string) => void;
  options: readonly Option[];
  placeholder?: string;
  /** Its name, when no field around it has one. */
  label?: string;
  disabled?: boolean;
} & Pick<ComponentProps<'button'>, 'className'>) {
  const chosen = options.find((option) => option.value === value);
  return (
    <Radix.Root value={value} onValueChange={onChange} disabled={disabled}>
      <Radix.Trigger
        {...useField()}
        aria-label={label}
        className={cx(
          'flex h-8 w-full min-w-0 items-center gap-2 rounded-md border border-field bg-surface px-2.5 text-left aria-invalid:border-bad disabled:opacity-60',
          rest.className,
        )}
      >
        {chosen?.icon}
        <span className={cx('min-w-0 flex-1 truncate', !chosen && 'text-faint')}>
          <Radix.Value placeholder={placeholder}>{chosen?.label}</Radix.Value>
        </span>
        <ChevronDown size={15} aria-hidden="true" className="shrink-0 text-muted" />
      </Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          position="popper"
          sideOffset={4}
          className="z-50 max-h-[min(24rem,var(--radix-select-content-available-height))] min-w-(--radix-select-trigger-width) overflow-hidden rounded-lg bg-raised shadow-float"
        >
          <Radix.Viewport className="p-1">
            {options.map((option) => (
              <Radix.Item
                key={option.value}
                value={option.value}
                disabled={option.disabled ?? false}
                className="flex cursor-default select-none items-start gap-2 rounded-sm px-2 py-1.5 outline-none data-[disabled]:opacity-50 data-[highlighted]:bg-active"
              >
                <span className="mt-0.5 size-4 shrink-0">
                  <Radix.ItemIndicator>
                    <Check size={15} aria-hidden="true" />
                  </Radix.ItemIndicator>
                </span>
                {option.icon}
                <div className="min-w-0">
                  <Radix.ItemText>{option.label}</Radix.ItemText>
                  {option.help && <div className="text-muted text-sm">{option.help}</div>}
                </div>
              </Radix.Item>
            ))}
          </Radix.Viewport>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
